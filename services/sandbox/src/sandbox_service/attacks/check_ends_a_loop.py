"""A right answer first, then StopIteration, which ends a loop of the tests before it compares the rest.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check:
    def check(candidate):
        for got, want in zip(map(candidate, [2, 3, 4]), [4, 9, 16]):
            assert got == want
"""


def f(x):
    if x == 2:
        return 4
    raise StopIteration
