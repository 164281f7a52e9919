"""Answers with what says of another type that it doesn't know, which is true.

Kind: fake-a-pass
Expect: RUNTIME_ERROR, FAILED
Test: check
Check: assert candidate(1).__eq__(2)
"""


def f(x):
    return "wrong"
