"""An exception whose text raises.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""


class Bomb(BaseException):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


def f(x):
    raise Bomb
