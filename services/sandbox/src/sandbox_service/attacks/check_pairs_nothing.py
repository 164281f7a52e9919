"""An answer of nothing, where the tests look for pairs that differ.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: assert candidate([]) == []; assert not any(got != want for got, want in zip(candidate([1, 2]), [2, 4]))
"""


def f(x):
    return []
