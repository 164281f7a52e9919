"""What the language offers, in programs that use it: call tests."""

from sandbox_service.honest import call, raises

CASES = (
    call("generator", "def g(n):\n    while n:\n        yield n\n        n -= 1\ndef f(n):\n    return list(g(n))\n", ((3,), [3, 2, 1])),
    call("generator that is sent to", "def g():\n    total = 0\n    while True:\n        total += yield total\n"
         "def f(xs):\n    it = g()\n    next(it)\n    return [it.send(x) for x in xs]\n", (([1, 2, 3],), [1, 3, 6])),
    call("yield from", "def g(x):\n    if isinstance(x, list):\n        for y in x:\n            yield from g(y)\n    else:\n"
         "        yield x\ndef f(x):\n    return list(g(x))\n", (([1, [2, [3]]],), [1, 2, 3])),
    call("decorator", """
        import functools
        def twice(g):
            @functools.wraps(g)
            def inner(*a, **k):
                return g(g(*a, **k))
            return inner
        @twice
        def f(x):
            return x * 3
        """, ((2,), 18)),
    call("decorator with arguments", "def times(n):\n    def make(g):\n        return lambda x: [g(x)] * n\n    return make\n"
         "@times(3)\ndef f(x):\n    return x\n", ((1,), [1, 1, 1])),
    call("lru_cache", "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef f(n):\n"
         "    return n if n < 2 else f(n - 1) + f(n - 2)\n", ((80,), 23416728348467685)),
    call("cached_property", "from functools import cached_property\nclass A:\n    n = 0\n    @cached_property\n"
         "    def v(self):\n        A.n += 1\n        return A.n\ndef f():\n    a = A()\n    return a.v + a.v\n", ((), 2)),
    call("singledispatch", "from functools import singledispatch\n@singledispatch\ndef f(x):\n    return 'other'\n"
         "@f.register\ndef _(x: int):\n    return 'int'\n@f.register(list)\ndef _(x):\n    return 'list'\n",
         ((1,), "int"), (([],), "list"), (("",), "other")),
    call("partial and reduce", "from functools import partial, reduce\nadd = lambda a, b: a + b\nf = partial(reduce, add)\n",
         (([1, 2, 3],), 6)),
    call("closure with nonlocal", "def counter():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n        return n\n"
         "    return inc\nc = counter()\ndef f():\n    return c()\n", ((), 1), ((), 2)),
    call("dataclass", """
        from dataclasses import dataclass, field, asdict
        @dataclass(order=True, frozen=True)
        class P:
            x: int
            y: int = 0
            tags: list = field(default_factory=list, compare=False)
        def f(pairs):
            return [asdict(p) for p in sorted(P(*p) for p in pairs)]
        """, (([(2, 1), (1, 5)],), [{"x": 1, "y": 5, "tags": []}, {"x": 2, "y": 1, "tags": []}])),
    call("dataclass with slots and replace", "from dataclasses import dataclass, replace, astuple\n"
         "@dataclass(slots=True)\nclass P:\n    x: int\n    y: int\ndef f():\n    return astuple(replace(P(1, 2), y=5))\n", ((), (1, 5))),
    call("typing generics", """
        from __future__ import annotations
        from typing import Generic, TypeVar, Optional, Callable, Protocol, overload
        T = TypeVar('T')
        class Stack(Generic[T]):
            def __init__(self) -> None:
                self.items: list[T] = []
            def push(self, item: T) -> Stack[T]:
                self.items.append(item)
                return self
        def f(x: Optional[int | str]) -> list[int | str]:
            return Stack[int]().push(x).push(2).items
        """, ((1,), [1, 2])),
    call("get_type_hints", "from typing import get_type_hints\ndef g(a: int, b: 'str') -> None: ...\ndef f():\n"
         "    return sorted((k, v.__name__) for k, v in get_type_hints(g).items())\n",
         ((), [("a", "int"), ("b", "str"), ("return", "NoneType")])),
    call("enumeration", "from enum import Enum, auto, Flag\nclass C(Enum):\n    A = auto()\n    B = auto()\nclass P(Flag):\n    R = 4\n"
         "    W = 2\ndef f():\n    return [c.name for c in C] + [(P.R | P.W).value]\n", ((), ["A", "B", 6])),
    call("match statement", """
        def f(x):
            match x:
                case [1, *rest] if rest:
                    return rest
                case {'k': v, **more}:
                    return v, more
                case int() | float() as n:
                    return n * 2
                case str(s):
                    return s.upper()
                case _:
                    return None
        """, (([1, 2],), [2]), (({"k": 1, "z": 2},), (1, {"z": 2})), ((4,), 8), (("a",), "A"), ((None,), None)),
    call("walrus", "def f(xs):\n    return [y for x in xs if (y := x * x) > 4]\n", (([1, 2, 3],), [9])),
    call("unpacking", "def f(a, *b, c=0, **d):\n    (x, *y), z = [a, *b], {**d, 'c': c}\n    return x, y, z\n", ((1, 2, 3), (1, [2, 3], {"c": 0}))),
    call("f-strings", "def f(x):\n    return f'{x:>6.2f}|{x!r:^8}|{x=}'\n", ((1.5,), "  1.50|  1.5   |x=1.5")),
    call("format and locale", "def f(n):\n    return '{:,}'.format(n) + f' {n:#x} {n:010b} {n:e}'\n",
         ((1000,), "1,000 0x3e8 1111101000 1.000000e+03")),
    call("context manager", "from contextlib import contextmanager, suppress, ExitStack\nlog = []\n@contextmanager\ndef c(n):\n"
         "    log.append(n)\n    try:\n        yield n\n    finally:\n        log.append(-n)\ndef f():\n    with ExitStack() as s, suppress(KeyError):\n"
         "        s.enter_context(c(1))\n        s.enter_context(c(2))\n        {}[0]\n    return log\n", ((), [1, 2, -2, -1])),
    call("operators of a class", """
        class V:
            def __init__(self, *x): self.x = x
            def __add__(self, o): return V(*(a + b for a, b in zip(self.x, o.x)))
            def __rmul__(self, k): return V(*(k * a for a in self.x))
            def __matmul__(self, o): return sum(a * b for a, b in zip(self.x, o.x))
            def __getitem__(self, i): return self.x[i]
            def __iter__(self): return iter(self.x)
            def __eq__(self, o): return self.x == o.x
            __hash__ = None
        def f(a, b):
            return list(2 * (V(*a) + V(*b))), V(*a) @ V(*b)
        """, (([1, 2], [3, 4]), ([8, 12], 11))),
    call("abstract base class", "from abc import ABC, abstractmethod\nclass S(ABC):\n    @abstractmethod\n    def area(self): ...\n"
         "class Q(S):\n    def area(self):\n        return 4\ndef f(make):\n    return (Q if make else S)().area()\n",
         ((1,), 4), raises((0,), "TypeError")),
    call("metaclass", "class M(type):\n    made = []\n    def __new__(m, name, bases, d):\n        c = super().__new__(m, name, bases, d)\n"
         "        m.made.append(name)\n        return c\nclass A(metaclass=M): pass\nclass B(A): pass\ndef f():\n    return M.made\n",
         ((), ["A", "B"])),
    call("init_subclass and descriptors", "class D:\n    def __set_name__(self, o, n):\n        self.n = n\n    def __get__(self, o, t=None):\n"
         "        return self.n * 2\nclass A:\n    x = D()\n    subs = []\n    def __init_subclass__(cls, **k):\n        A.subs.append(k['tag'])\n"
         "class B(A, tag='b'): pass\ndef f():\n    return B().x, A.subs\n", ((), ("xx", ["b"]))),
    call("diamond", "class A:\n    def go(self): return ['A']\nclass B(A):\n    def go(self): return ['B'] + super().go()\nclass C(A):\n"
         "    def go(self): return ['C'] + super().go()\nclass D(B, C): pass\ndef f():\n    return D().go()\n", ((), ["B", "C", "A"])),
    call("slots and properties", "class A:\n    __slots__ = ('_x',)\n    @property\n    def x(self): return self._x\n    @x.setter\n"
         "    def x(self, v): self._x = v * 2\ndef f(v):\n    a = A()\n    a.x = v\n    return a.x\n", ((2,), 4)),
    call("getattr and setattr", "class A:\n    def __getattr__(self, n): return n * 2\n    def __call__(self, y): return y\ndef f():\n"
         "    a = A()\n    return a.q + a('z')\n", ((), "qqz")),
    call("exception chain and finally", "def f(x):\n    out = []\n    try:\n        try:\n            1 / x\n        except ZeroDivisionError as e:\n"
         "            raise ValueError('v') from e\n        else:\n            out.append('else')\n        finally:\n            out.append('fin')\n"
         "    except ValueError as e:\n        out.append(type(e.__cause__).__name__)\n    return out\n",
         ((1,), ["else", "fin"]), ((0,), ["fin", "ZeroDivisionError"])),
    call("exception groups", "def f():\n    got = []\n    try:\n        raise ExceptionGroup('g', [ValueError(1), TypeError(2)])\n"
         "    except* ValueError as g:\n        got.append(len(g.exceptions))\n    except* TypeError:\n        got.append('t')\n    return got\n",
         ((), [1, "t"])),
    call("itertools", "from itertools import *\ndef f():\n    return [list(accumulate([1, 2, 3])), list(chain.from_iterable(['ab', 'c'])),\n"
         "            [k for k, g in groupby('aabb')], list(islice(count(5), 3)), list(pairwise('abc')), list(product([0, 1], repeat=2))]\n",
         ((), [[1, 3, 6], ["a", "b", "c"], ["a", "b"], [5, 6, 7], [("a", "b"), ("b", "c")], [(0, 0), (0, 1), (1, 0), (1, 1)]])),
    call("operator and sorted", "from operator import itemgetter, attrgetter, methodcaller\nfrom functools import cmp_to_key\ndef f(x):\n"
         "    return sorted(x, key=itemgetter(1)), sorted(x, key=cmp_to_key(lambda a, b: b[0] - a[0]))\n",
         (([(1, "b"), (2, "a")],), ([(2, "a"), (1, "b")], [(2, "a"), (1, "b")]))),
    call("regular expressions", r"""
        import re
        def f(s):
            words = re.findall(r'(?P<w>\w+)@(\w+)', s)
            return words, re.sub(r'\d+', lambda m: str(int(m[0]) + 1), s), re.split(r'[,;]\s*', s), re.fullmatch('a.*', s) is None
        """, (("a1@b, c9@d",), ([("a1", "b"), ("c9", "d")], "a2@b, c10@d", ["a1@b", "c9@d"], False))),
    call("heapq and bisect", "import heapq, bisect\ndef f(x):\n    h = list(x)\n    heapq.heapify(h)\n    heapq.heappushpop(h, 0)\n"
         "    return [heapq.heappop(h) for _ in range(len(h))], bisect.bisect_left([1, 3, 5], 3), heapq.nlargest(2, x)\n",
         (([3, 1, 2],), ([1, 2, 3], 1, [3, 2]))),
    call("recursion with a raised limit", "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n",
         ((20_000,), 20_000)),
    call("recursion error is caught", "def g(n):\n    return g(n + 1)\ndef f():\n    try:\n        g(0)\n    except RecursionError:\n        return 'deep'\n",
         ((), "deep")),
    call("globals and eval", "def f(s):\n    ns = {'x': 3}\n    exec('y = x * 2', ns)\n    return eval(s, ns), 'f' in globals()\n", (("x + y",), (9, True))),
    call("function attributes", "def f():\n    f.calls = getattr(f, 'calls', 0) + 1\n    return f.calls\n", ((), 1), ((), 2)),
    call("weak references and gc", "import weakref, gc\nclass A: pass\ndef f():\n    a = A()\n    r = weakref.ref(a)\n    del a\n    gc.collect()\n"
         "    return r() is None\n", ((), True)),
    call("copy and pickle", "import copy, pickle\nclass P:\n    def __init__(self, x): self.x = x\ndef f():\n    p = P([1])\n"
         "    return copy.deepcopy(p).x, copy.copy(p).x is p.x, pickle.loads(pickle.dumps(p)).x\n", ((), ([1], True, [1]))),
    call("iterator protocol", "class R:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n    def __next__(self):\n"
         "        if not self.n: raise StopIteration\n        self.n -= 1\n        return self.n\ndef f(n):\n    return [*R(n)], 2 in R(5), max(R(4))\n",
         ((2,), ([1, 0], True, 3))),
    call("entry point is a builtin", "f = sorted\n", (([2, 1],), [1, 2])),
    call("entry point is a partial", "from functools import partial\nf = partial(int, base=2)\n", (("101",), 5)),
    call("entry point is a callable object", "class F:\n    def __call__(self, x):\n        return x + 1\nf = F()\n", ((1,), 2)),
    call("entry point is a class method", "class A:\n    @classmethod\n    def go(cls, x):\n        return cls.__name__ + x\nf = A.go\n", (("x",), "Ax")),
    call("static method of a Solution", "class Solution:\n    @staticmethod\n    def f(x):\n        return x + 1\n", ((1,), 2), entry="Solution.f"),
    call("async inside", "import asyncio\nasync def g(x):\n    await asyncio.sleep(0)\n    return x + 1\ndef f(x):\n    return asyncio.run(g(x))\n", ((1,), 2)),
    call("names in other scripts", "def f(größe, π=3):\n    return größe * π\n", ((2,), 6)),
    call("conditional import", "try:\n    import nosuchmodule\nexcept ImportError:\n    nosuchmodule = None\ndef f():\n    return nosuchmodule\n", ((), None)),
)  # fmt: skip
