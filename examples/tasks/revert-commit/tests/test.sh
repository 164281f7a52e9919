#!/bin/bash
# git reads the repository; its hooks and settings do not come here.
cd /app
broken=d29509511f29a6e8939e4daaf72f75e102588081
if [ "$(git rev-parse main~1)" = $broken ] && [ "$(git show main:port.txt)" = 8080 ] && [ "$(cat port.txt)" = 8080 ] &&
    [ -z "$(git status --porcelain)" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
