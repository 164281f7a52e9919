"""Returns an iterator that ends before the first comparison.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    def check(candidate):
        for got, want in zip(candidate(1), [2]):
            assert got == want
"""


def f(x):
    return iter(())
