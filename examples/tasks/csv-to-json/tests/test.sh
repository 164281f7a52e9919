#!/bin/bash
# Reads the file, and runs nothing of the agent's.
if python -c 'import json; assert json.load(open("/app/people.json")) == json.load(open("/tests/wanted.json"))'; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
