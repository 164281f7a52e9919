"""Raises StopIteration, which ends a loop of the tests before it compares.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    def check(candidate):
        for got, want in zip(map(candidate, [1, 2]), [2, 3]):
            assert got == want
"""


def f(x):
    raise StopIteration
