"""Generators, contexts, iterators and awaitables, synchronous and not."""

from sandbox_service.honest import check

PROGRAM = """
import asyncio, contextlib
log = []
def gen(n):
    try:
        for i in range(n):
            got = yield i
            if got is not None: log.append(got)
    except ValueError:
        yield 'caught'
    finally:
        log.append('closed')
def averager():
    total = n = 0
    avg = None
    while True:
        x = yield avg
        total += x; n += 1
        avg = total / n
def ret():
    yield 1
    return 7
class CM:
    def __init__(self): self.events = []
    def __enter__(self): self.events.append('in'); return self
    def __exit__(self, t, v, tb): self.events.append(t.__name__ if t else None); return t is ValueError
class ACM:
    def __init__(self): self.events = []
    async def __aenter__(self): self.events.append('in'); return self
    async def __aexit__(self, t, v, tb): self.events.append(t.__name__ if t else None); return t is ValueError
class AIt:
    def __init__(self, n): self.n, self.i = n, 0
    def __aiter__(self): return self
    async def __anext__(self):
        if self.i >= self.n: raise StopAsyncIteration
        self.i += 1
        await asyncio.sleep(0)
        return self.i
class AIterable:
    def __init__(self, n): self.n = n
    async def __aiter__(self):
        for i in range(self.n): yield i
class Aw:
    def __init__(self, v): self.v = v
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.v
async def agen(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i
@contextlib.contextmanager
def cm(x):
    log.append('enter')
    try: yield x
    finally: log.append('leave')
@contextlib.contextmanager
def swallow():
    try: yield
    except KeyError: pass
@contextlib.asynccontextmanager
async def acm(x):
    yield x
class Timer(contextlib.ContextDecorator):
    def __enter__(self): return self
    def __exit__(self, *a): return False
async def f(x):
    await asyncio.sleep(0)
    return x + 1
async def fails(): raise ValueError("bad")
async def both(a, b): return await asyncio.gather(f(a), f(b))
class Client:
    def __init__(self): self.n = 0
    async def fetch(self, x):
        self.n += 1
        return x * 2
    @property
    async def prop(self): return 3
async def calls(cb): return await cb(3)
def events(): return list(log)
def handed(): return CM()
def ahanded(): return ACM()
def aw(v): return Aw(v)
"""
CASES = (
    check("close of a generator", PROGRAM, "g = gen(3)\nassert next(g) == 0\ng.close()\nassert events() == ['closed']\n", names=["gen", "events"]),
    check("send", PROGRAM, "g = gen(3)\nassert next(g) == 0 and g.send('hi') == 1\nassert events() == ['hi']\n", names=["gen", "events"]),
    check("throw an exception", PROGRAM, "g = gen(3)\nnext(g)\nassert g.throw(ValueError('x')) == 'caught'\n", names=["gen"]),
    check("throw a class of exceptions", PROGRAM, "g = gen(3)\nnext(g)\nassert g.throw(ValueError) == 'caught'\n", names=["gen"]),
    check("running average", PROGRAM, 'a = averager()\nnext(a)\nassert a.send(10) == 10 and a.send(20) == 15\n', names=["averager"]),
    check("value of a StopIteration", PROGRAM, 'g = ret()\nassert next(g) == 1\ntry:\n    next(g)\nexcept StopIteration as e:\n    assert e.value == 7\nelse:\n    assert False\n', names=["ret"]),
    check("yield from", PROGRAM, 'def outer():\n    r = yield from ret()\n    yield r\nassert list(outer()) == [1, 7]\n', names=["ret"]),
    check("exhausted", PROGRAM, 'g = gen(2)\nassert list(g) == [0, 1]\nimport pytest\nwith pytest.raises(StopIteration):\n    next(g)\n', names=["gen"]),
    check("with", PROGRAM, "c = CM()\nwith c as x:\n    assert x is c\n    assert c.events == ['in']\nassert c.events == ['in', None]\n", names=["CM", "events"]),
    check("with that swallows", PROGRAM, "c = CM()\nwith c:\n    raise ValueError('x')\nassert c.events == ['in', 'ValueError']\n", names=["CM", "events"]),
    check("with that passes on", PROGRAM, "import pytest\nc = CM()\nwith pytest.raises(KeyError):\n    with c:\n        raise KeyError('x')\nassert c.events == ['in', 'KeyError']\n", names=["CM", "events"]),
    check("contextmanager", PROGRAM, "with cm(5) as x:\n    assert x == 5\nassert events() == ['enter', 'leave']\n", names=["cm", "events"]),
    check("contextmanager with an error", PROGRAM, "import pytest\nwith pytest.raises(ZeroDivisionError):\n    with cm(5) as x:\n        1 / 0\nassert events() == ['enter', 'leave']\n", names=["cm", "events"]),
    check("contextmanager that swallows", PROGRAM, "with swallow():\n    raise KeyError('x')\nassert events() == []\n", names=["swallow", "events"]),
    check("async with", PROGRAM, "import asyncio\nasync def main():\n    c = ACM()\n    async with c as x:\n        assert x is c\n        assert c.events == ['in']\n    assert c.events == ['in', None]\nasyncio.run(main())\n", names=["ACM", "events"]),
    check("async with that swallows", PROGRAM, "import asyncio\nasync def main():\n    c = ACM()\n    async with c:\n        raise ValueError('x')\n    assert c.events == ['in', 'ValueError']\nasyncio.run(main())\n", names=["ACM", "events"]),
    check("async for", PROGRAM, 'import asyncio\nasync def main():\n    out = []\n    async for x in AIt(3):\n        out.append(x)\n    assert out == [1, 2, 3]\n    assert [x async for x in AIterable(2)] == [0, 1]\nasyncio.run(main())\n', names=["AIt", "AIterable"]),
    check("async generator", PROGRAM, 'import asyncio\nasync def main():\n    assert [x async for x in agen(3)] == [0, 1, 2]\nasyncio.run(main())\n', names=["agen"]),
    check("anext and aclose", PROGRAM, 'import asyncio\nasync def main():\n    a = agen(3)\n    assert await a.__anext__() == 0 and await anext(a) == 1\n    await a.aclose()\nasyncio.run(main())\n', names=["agen"]),
    check("__await__", PROGRAM, 'import asyncio\nasync def main():\n    assert await Aw(5) == 5\n    assert await aw(6) == 6\nasyncio.run(main())\n', names=["Aw", "aw"]),
    check("asynccontextmanager", PROGRAM, 'import asyncio\nasync def main():\n    async with acm(4) as x:\n        assert x == 4\nasyncio.run(main())\n', names=["acm"]),
    check("gather, wait_for, create_task", PROGRAM, 'import asyncio\nasync def main():\n    assert await f(1) == 2\n    assert await asyncio.gather(f(1), f(2)) == [2, 3]\n    assert await asyncio.wait_for(f(5), 1) == 6\n    t = asyncio.create_task(f(3))\n    assert await t == 4\n    assert await both(1, 2) == [2, 3]\nasyncio.run(main())\n', names=["both"]),
    check("async raises", PROGRAM, "import asyncio, pytest\nwith pytest.raises(ValueError, match='bad'):\n    asyncio.run(fails())\n", names=["fails"]),
    check("async methods", PROGRAM, 'import asyncio\nasync def main():\n    c = Client()\n    assert await c.fetch(2) == 4 and c.n == 1\n    assert await asyncio.gather(*(c.fetch(i) for i in range(3))) == [0, 2, 4]\n    assert await c.prop == 3\nasyncio.run(main())\n', names=["Client"]),
    check("async callback", PROGRAM, 'import asyncio\nasync def cb(x): return x + 1\nassert asyncio.run(calls(cb)) == 4\n', names=["calls"]),
    check("async callback in a loop", PROGRAM, 'import asyncio\nasync def cb(x):\n    await asyncio.sleep(0)\n    return x + 1\nasync def main():\n    assert await calls(cb) == 4\nasyncio.run(main())\n', names=["calls"]),
    check("IsolatedAsyncioTestCase", PROGRAM, 'import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def asyncSetUp(self):\n        self.c = Client()\n    async def test_a(self):\n        self.assertEqual(await self.c.fetch(2), 4)\n', names=["Client"]),
    check("with of a result", PROGRAM, "with handed() as h:\n    pass\nassert h.events == ['in', None]\n", names=["events", "handed"]),
    check("async with of a result", PROGRAM, "import asyncio\nasync def main():\n    async with ahanded() as h:\n        pass\n    assert h.events == ['in', None]\nasyncio.run(main())\n", names=["events", "ahanded"]),
    check("run_until_complete", PROGRAM, 'import asyncio\nassert asyncio.get_event_loop_policy() and asyncio.new_event_loop().run_until_complete(f(1)) == 2\n'),
    check("ContextDecorator", PROGRAM, '@Timer()\ndef g(x): return x + 1\nassert g(1) == 2 and list(gen(1)) == [0]\n', names=["gen", "Timer"]),
    check("iter and next", PROGRAM, "it = iter(gen(3))\nassert iter(it) is it and next(it) == 0 and next(it, None) == 1 and list(it) == [2] and next(it, 'end') == 'end'\n", names=["gen"]),
    check("tee", PROGRAM, "from itertools import pairwise, tee\na, b = tee(gen(3))\nassert list(a) == list(b) == [0, 1, 2]\nassert list(pairwise(gen(3))) == [(0, 1), (1, 2)]\n", names=["gen"]),
)  # fmt: skip
