"""A collection that holds whatever is looked for.

Kind: fake-a-pass
Expect: FAILED
Test: check
Check: assert 2 in candidate(1)
"""


class Everything:
    def __contains__(self, item):
        return True

    def __iter__(self):
        return iter(())


def f(x):
    return Everything()
