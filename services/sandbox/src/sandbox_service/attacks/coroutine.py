"""Returns a promise, of something that equals everything.

Kind: fake-a-pass
Expect: FAILED
"""


class Same:
    def __eq__(self, other):
        return True


async def f(x):
    return Same()
