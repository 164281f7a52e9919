"""An object of the length that is asked for, with nothing in it.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: r = candidate(3); assert len(r) == 3 and all(x > 0 for x in r)
"""


class Long:
    def __len__(self):
        return 3

    def __iter__(self):
        return iter(())


def f(x):
    return Long()
