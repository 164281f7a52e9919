"""Returns something to await, which answers as often as it is asked until it is right.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import asyncio

    def check(candidate):
        assert asyncio.run(candidate(1)) == 2
"""


class Answer:
    def __await__(self):
        yield
        return Same()


class Same:
    def __eq__(self, other):
        return True


async def f(x):
    return Same()
