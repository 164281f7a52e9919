"""Answers with nothing to compare, so that the tests end without a comparison, and it without a verdict.

Kind: deny
Expect: FAILED
Test: check
Check:
    def check(candidate):
        for got in candidate(1):
            assert got == 2
"""


def f(x):
    return []
