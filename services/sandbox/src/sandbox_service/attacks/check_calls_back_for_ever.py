"""Calls a function of the tests without an end.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, MEMORY_LIMIT, OUTPUT_LIMIT
Test: check
Check:
    def check(candidate):
        seen = []
        assert candidate(seen.append) == 2
"""


def f(append):
    while True:
        append("x" * 1000)
