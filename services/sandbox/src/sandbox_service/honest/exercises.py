"""Short exercises as HumanEval and MBPP have them: plain functions of plain values."""

from sandbox_service.honest import call, raises, unordered

CASES = (
    call("adds", "def f(a, b):\n    return a + b\n", ((1, 2), 3), ((-5, 5), 0), ((10**20, 1), 10**20 + 1)),
    call("lambda", "f = lambda x: x * 2\n", ((4,), 8)),
    call("default arguments", "def f(a, b=3, *rest, c=4):\n    return a + b + c + sum(rest)\n", ((1,), 8), ((1, 1, 1), 7)),
    call("is prime", "def f(n):\n    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))\n", ((97,), True)),
    call("factorial", "import math\ndef f(n):\n    return math.factorial(n)\n", ((25,), 15511210043330985984000000)),
    call("gcd by Euclid", "def f(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n", ((12, 18), 6), ((7, 0), 7)),
    call("palindrome", "def f(s):\n    return s == s[::-1]\n", (("abba",), True), (("abc",), False), (("",), True)),
    call("reverse words", "def f(s):\n    return ' '.join(s.split()[::-1])\n", (("a b  c",), "c b a")),
    call("vowels", "def f(s):\n    return sum(c in 'aeiouAEIOU' for c in s)\n", (("Programming",), 3)),
    call("flatten", "def f(x):\n    return [z for y in x for z in f(y)] if isinstance(x, list) else [x]\n",
         (([1, [2, [3, []]]],), [1, 2, 3])),
    call("mean is a float", "def f(x):\n    return sum(x) / len(x)\n", (([1, 2],), 1.5), (([0.1, 0.2, 0.3],), 0.2)),
    call("standard deviation", "import statistics\ndef f(x):\n    return statistics.pstdev(x)\n",
         (([2, 4, 4, 4, 5, 5, 7, 9],), 2.0)),
    call("rounding", "def f(x, n):\n    return round(x, n)\n", ((2.675, 2), 2.67), ((1234.5, -2), 1200.0)),
    call("area of a circle", "import math\ndef f(r):\n    return math.pi * r * r\n", ((2,), 12.566370614359172)),
    call("floats that add up", "def f(n):\n    return sum(0.1 for _ in range(n))\n", ((10,), 1.0), ((100,), 10.0)),
    call("two results", "def f(a, b):\n    return divmod(a, b)\n", ((17, 5), (3, 2)), ((-7, 2), (-4, 1))),
    call("returns nothing", "def f(x):\n    x.sort()\n", (([2, 1],), None)),
    call("returns a set", "def f(s):\n    return set(s)\n", (("hello",), {"h", "e", "l", "o"})),
    call("returns a dict", "def f(s):\n    return {c: s.count(c) for c in s}\n", (("aab",), {"a": 2, "b": 1})),
    call("nested results", "def f(n):\n    return {i: [(i, {j for j in range(i)})] for i in range(n)}\n",
         ((3,), {0: [(0, set())], 1: [(1, {0})], 2: [(2, {0, 1})]})),
    call("bytes", "def f(s):\n    return s.encode('utf-16-le')\n", (("hé",), b"h\x00\xe9\x00")),
    call("unicode", "def f(s):\n    return s.upper() + chr(0x1F600)\n", (("straße",), "STRASSE\U0001f600")),
    call("lone surrogate", "def f():\n    return '\\ud800'\n", ((), "\ud800")),
    call("complex numbers", "import cmath\ndef f(x):\n    return cmath.sqrt(x)\n", ((-4,), 2j)),
    call("not a number", "def f():\n    return float('nan')\n", ((), float("nan"))),
    call("infinities", "def f():\n    return [float('inf'), -float('inf')]\n", ((), [float("inf"), -float("inf")])),
    call("negative zero", "def f():\n    return -0.0\n", ((), 0.0)),
    call("large power", "def f(a, b):\n    return a ** b\n", ((3, 500), 3**500)),
    call("modular power", "def f(a, b, m):\n    return pow(a, b, m)\n", ((3, 10**18, 10**9 + 7), 246336683)),
    call("base conversion", "def f(n, b):\n    d = ''\n    while n:\n        n, r = divmod(n, b)\n"
         "        d = '0123456789abcdef'[r] + d\n    return d or '0'\n", ((255, 16), "ff"), ((0, 2), "0")),
    call("roman numerals", """
        def f(n):
            pairs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'),
                     (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
            text = ''
            for value, sign in pairs:
                while n >= value:
                    text += sign
                    n -= value
            return text
        """, ((1994,), "MCMXCIV"), ((9,), "IX")),
    call("caesar", "def f(s, k):\n    return ''.join(chr((ord(c) - 97 + k) % 26 + 97) if c.islower() else c for c in s)\n",
         (("xyz!", 3), "abc!")),
    call("balanced brackets", """
        def f(s):
            stack, pairs = [], {')': '(', ']': '[', '}': '{'}
            for c in s:
                if c in pairs.values():
                    stack.append(c)
                elif not stack or stack.pop() != pairs[c]:
                    return False
            return not stack
        """, (("([]{})",), True), (("(]",), False)),
    call("pascal", "def f(n):\n    row = [1]\n    for i in range(n):\n        row.append(row[-1] * (n - i) // (i + 1))\n"
         "    return row\n", ((5,), [1, 5, 10, 10, 5, 1])),
    call("matrix transposed", "def f(m):\n    return [list(r) for r in zip(*m)]\n", (([[1, 2], [3, 4]],), [[1, 3], [2, 4]])),
    call("permutations in any order", "from itertools import permutations\ndef f(x):\n    return list(permutations(x))\n",
         unordered(([1, 2, 3],), [(3, 2, 1), (1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2)])),
    call("floats in any order", "def f():\n    return [0.1 + 0.2, 0.5]\n", unordered((), [0.5, 0.3])),
    call("raises as asked", "def f(x):\n    raise ValueError('no')\n", raises((1,), "ValueError")),
    call("raises its own kind", "class Odd(ValueError):\n    pass\ndef f(x):\n    raise Odd(x)\n",
         raises((1,), "ValueError"), raises((1,), "Odd")),
    call("raises from the library", "def f(x):\n    return {}[x]\n", raises(("a",), "KeyError"), raises((1,), "LookupError")),
    call("raises a division", "def f(a, b):\n    return a / b\n", ((6, 4), 1.5), raises((1, 0), "ZeroDivisionError")),
    call("asserts its argument", "def f(n):\n    assert n > 0, 'positive'\n    return n\n", ((1,), 1), raises((0,), "AssertionError")),
    call("leaves by sys.exit", "import sys\ndef f():\n    sys.exit(3)\n", raises((), "SystemExit")),
    call("global state between calls", "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n",
         ((1,), 1), ((1,), 2), ((1,), 3)),
    call("prints a little", "def f(x):\n    print('debug', x)\n    return x\n", ((1,), 1)),
    call("prints a lot", "def f(x):\n    for i in range(4000):\n        print('debug', i, 'x' * 40)\n    return x\n", ((1,), 1)),
    call("prints to stderr", "import sys\ndef f(x):\n    print('e' * 100000, file=sys.stderr)\n    return x\n", ((1,), 1)),
    call("tests at the end of the file", "def f(x):\n    return x + 1\n\nassert f(1) == 2\nprint(f(3))\n", ((1,), 2)),
    call("main guard", "def f(x):\n    return x + 1\n\nif __name__ == '__main__':\n    print(f(int(input())))\n", ((1,), 2)),
    call("doctest in its docstring", 'def f(x):\n    """Adds one.\n\n    >>> f(1)\n    2\n    """\n    return x + 1\n\n'
         "if __name__ == '__main__':\n    import doctest\n    doctest.testmod()\n", ((1,), 2)),
    call("many middling answers", "def f(n):\n    return [str(n) * 15_000, n]\n", *(((n,), [str(n) * 15_000, n]) for n in range(100, 130))),
    call("one long answer", "def f(n):\n    return 'ab' * n\n", ((300_000,), "ab" * 300_000)),
    call("a hundred tests", "def f(n):\n    return n * n\n", *(((n,), n * n) for n in range(100))),
    call("a long argument", "def f(x):\n    return sum(x)\n", ((list(range(20_000)),), 199990000)),
    call("a deep argument", "def f(x):\n    return 0 if not x else 1 + f(x[0])\n", (([[[[[[[[]]]]]]]],), 7)),
)  # fmt: skip
