"""Keys that are equal to everything and hash alike.

Kind: fake-a-pass
Expect: FAILED
"""


class Key(str):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def f(x):
    return {Key("a"): 2, Key("b"): 2}
