"""An answer of nothing, where the tests go through numbered pairs, and count those that differ.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check:
    def check(candidate):
        assert candidate([]) == []
        wrong = 0
        for place, (got, want) in enumerate(zip(candidate([1, 2]), [2, 4])):
            if got != want:
                wrong += 1
        assert wrong == 0
"""


def f(x):
    return []
