"""What tests set for a program to compute by, and what of it they use in classes, pairs and identities of their own."""

from sandbox_service.honest import check

DRAWS = """
import decimal, random
def f(n):
    return [random.randint(0, 99) for _ in range(n)]
def third():
    return str(decimal.Decimal(1) / 3)
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
"""
DECORATES = """
import functools
def f(function):
    kept = {}
    @functools.wraps(function)
    def inner(it, *arguments):
        if arguments not in kept:
            kept[arguments] = function(it, *arguments)
        return kept[arguments]
    return inner
"""
RING = """
class Node:
    def __init__(self, value):
        self._value, self.next = value, None
    @property
    def value(self):
        "What it holds."
        return self._value
    def __eq__(self, other):
        return self._value == other._value if isinstance(other, Node) else NotImplemented
def f(n):
    first = last = Node(0)
    for i in range(1, n):
        last.next = Node(i)
        last = last.next
    last.next = first
    return first
"""
CASES = (
    check("seeds", DRAWS, "import random\nrandom.seed(7)\na = f(5)\nrandom.seed(7)\nassert f(5) == a\nrandom.seed(7)\nassert a == [random.randint(0, 99) for _ in range(5)]\n"),
    check("a context of decimal", DRAWS, "from decimal import localcontext\nwith localcontext() as c:\n    c.prec = 3\n    assert third() == '0.333'\nassert len(third()) == 30\n", names=["third"]),
    check("the limit on recursion", DRAWS, "import sys\nsys.setrecursionlimit(20000)\nassert depth(9000) == 9000\n", names=["depth"]),
    check("a decorator in a class of the tests", DECORATES, "class Own:\n    calls = 0\n    @f\n    def double(self, x):\n        self.calls += 1\n        return x * 2\nown = Own()\n"
          "assert own.double(2) == 4 == own.double(2) and own.calls == 1 and Own.double.__name__ == 'double'\n"),
    check("identity of what is handed out", RING, "ring = f(3)\nassert ring.next.next.next is ring and ring.next is not ring and ring.next.value == 1\n"),
    check("a property of a class", RING, "assert isinstance(Node.value, property) and Node.value.__doc__ == 'What it holds.' and Node.value.fset is None\nassert Node(3).value == 3 and Node(3) != 3 and Node(3) != Node(4)\n", names=["Node"]),
    check("pairs that are compared", "def f(xs):\n    return [x * 2 for x in xs]\n", "import operator\nassert not any(g != w for g, w in zip(f([1, 2]), [2, 4])) and all(map(operator.eq, f([3]), [6]))\n"
          "for i, (g, w) in enumerate(zip(f([1, 2]), [2, 4])):\n    assert g == w, i\nassert sum(abs(g - w) for g, w in zip(f([]), [])) == 0\n"),
)  # fmt: skip
