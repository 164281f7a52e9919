"""Returns an object that has an item for every number.

Kind: deny
Expect: TIME_LIMIT
Test: check
Check: assert set(candidate(1)) == {2}
"""


class Items:
    def __getitem__(self, number):
        return 2


def f(x):
    return Items()
