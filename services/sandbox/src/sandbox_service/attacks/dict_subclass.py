"""A dict whose items depend on who asks.

Kind: fake-a-pass
Expect: FAILED
"""


class Answer(dict):
    def __missing__(self, key):
        return 2

    def items(self):
        return [("value", 2)]

    def __eq__(self, other):
        return True


def f(x):
    return Answer()
