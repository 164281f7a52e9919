#!/usr/bin/env bash
# pytest with the arguments given, in the light environment. What fails is run once more, alone: thousands of tests hold
# clocks against each other, and a machine that stands still for a second is no defect. What fails twice is one.
set -uo pipefail
cd "$(dirname "$0")/.."
.venvs/light/bin/pytest "$@"
status=$?
[ $status -eq 1 ] || exit $status  # only tests that failed: no errors of usage, no interrupt
grep -q '::' .pytest_cache/v/cache/lastfailed || exit $status  # nothing ran: the workers found different tests
echo "tests: what failed is run once more, alone" >&2
exec .venvs/light/bin/pytest "$@" -n 0 --last-failed --last-failed-no-failures none
