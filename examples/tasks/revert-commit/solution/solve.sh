#!/bin/bash
set -e
cd /app
git config user.name Ratchet
git config user.email ratchet@example.com
git revert --no-edit HEAD
