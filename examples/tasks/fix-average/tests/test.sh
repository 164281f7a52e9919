#!/bin/bash
# `subject run` runs the program in a workspace of its own, which holds neither these tests nor the reward.
passed=0
check() { [ "$(printf "$1" | subject run python average.py)" = "$2" ] && passed=$((passed + 1)); }
check '1\n2\n' 1.50
check '\n3\n\n' 3.00
check '' 0.00
check '0.5\n-2.5\n' -1.00
[ $passed = 4 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
