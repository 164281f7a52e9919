"""A list that equals whatever it is compared with, and lies about its items.

Kind: fake-a-pass
Expect: FAILED
"""


class Equal(list):
    def __eq__(self, other):
        return True

    def __iter__(self):
        return iter([2])

    def __len__(self):
        return 1


def f(x):
    return Equal([7])
