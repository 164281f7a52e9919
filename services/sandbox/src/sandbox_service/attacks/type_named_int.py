"""A type of its own that has the name of another, under a metaclass that says yes.

Kind: fake-a-pass
Expect: FAILED
"""


class Meta(type):
    def __eq__(cls, other):
        return True

    def __instancecheck__(cls, instance):
        return True

    def __hash__(cls):
        return hash(int)


class int(metaclass=Meta):
    def __repr__(self):
        return "2"


def f(x):
    return int()
