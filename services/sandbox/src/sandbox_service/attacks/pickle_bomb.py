"""Hands over an object that would run code at the receiver.

Kind: fake-a-pass
Expect: FAILED
"""

import os


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch /tmp/pwned",))


def f(x):
    return Bomb()
