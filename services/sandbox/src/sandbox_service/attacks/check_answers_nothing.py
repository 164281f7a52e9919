"""An answer of nothing, where the tests compare as many items as it has.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: assert all(got == want for got, want in zip(candidate([1, 2]), [2, 4])); assert candidate([]) == []
"""


def f(x):
    return []
