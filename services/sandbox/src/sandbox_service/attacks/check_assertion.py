"""Raises what a test would raise, to be taken for one that was expected.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED
Test: check
Check: assert candidate(1) == 2
"""


def f(x):
    raise AssertionError
