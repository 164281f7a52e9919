"""A collection that gives all its items once, and none when it's looked at again.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: r = candidate([3, 1, 2]); assert sorted(r) == [1, 2, 3]; assert all(a <= b for a, b in zip(r, list(r)[1:]))
"""


class Once:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        items, self.items = self.items, []
        return iter(items)


def f(x):
    return Once(x)
