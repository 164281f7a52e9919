"""What competitive programs compute: call tests."""

from sandbox_service.honest import call

CASES = (
    call("sieve", "def f(n):\n    s = bytearray([1]) * (n + 1)\n    s[:2] = b'\\0\\0'\n    for i in range(2, int(n**0.5) + 1):\n        if s[i]:\n"
         "            s[i*i::i] = bytes(len(s[i*i::i]))\n    return sum(s)\n", ((1_000_000,), 78498)),
    call("dijkstra", "import heapq\ndef f(n, edges, s):\n    g = [[] for _ in range(n)]\n    for a, b, w in edges:\n        g[a].append((b, w))\n        g[b].append((a, w))\n"
         "    d = [float('inf')] * n\n    d[s] = 0\n    h = [(0, s)]\n    while h:\n        c, u = heapq.heappop(h)\n        if c > d[u]:\n            continue\n"
         "        for v, w in g[u]:\n            if c + w < d[v]:\n                d[v] = c + w\n                heapq.heappush(h, (d[v], v))\n    return d\n",
         ((4, [(0, 1, 4), (0, 2, 1), (2, 1, 2)], 0), [0, 3, 1, float("inf")])),
    call("union find", "def f(n, pairs):\n    p = list(range(n))\n    def find(x):\n        while p[x] != x:\n            p[x] = p[p[x]]\n            x = p[x]\n        return x\n"
         "    for a, b in pairs:\n        p[find(a)] = find(b)\n    return len({find(i) for i in range(n)})\n", ((5, [(0, 1), (2, 3)]), 3)),
    call("segment tree", "class T:\n    def __init__(s, xs):\n        s.n = len(xs)\n        s.t = [0] * s.n + list(xs)\n        for i in range(s.n - 1, 0, -1):\n"
         "            s.t[i] = s.t[2*i] + s.t[2*i+1]\n    def add(s, i, v):\n        i += s.n\n        while i:\n            s.t[i] += v\n            i //= 2\n"
         "    def sum(s, a, b):\n        a += s.n; b += s.n; r = 0\n        while a < b:\n            if a & 1: r += s.t[a]; a += 1\n            if b & 1: b -= 1; r += s.t[b]\n"
         "            a //= 2; b //= 2\n        return r\ndef f(xs):\n    t = T(xs)\n    t.add(1, 10)\n    return [t.sum(0, 4), t.sum(1, 2)]\n", (([1, 2, 3, 4],), [20, 12])),
    call("fenwick inversions", "def f(xs):\n    r = {v: i + 1 for i, v in enumerate(sorted(set(xs)))}\n    t = [0] * (len(r) + 1)\n    inv = 0\n    for k, x in enumerate(xs):\n"
         "        i = r[x]\n        s = 0\n        while i: s += t[i]; i -= i & -i\n        inv += k - s\n        i = r[x]\n        while i < len(t): t[i] += 1; i += i & -i\n"
         "    return inv\n", (([3, 1, 2],), 2), ((list(range(500, 0, -1)),), 124750)),
    call("knapsack", "def f(items, cap):\n    dp = [0] * (cap + 1)\n    for w, v in items:\n        for c in range(cap, w - 1, -1):\n            dp[c] = max(dp[c], dp[c-w] + v)\n"
         "    return dp[cap]\n", (([(1, 1), (3, 4), (4, 5), (5, 7)], 7), 9)),
    call("edit distance", "def f(a, b):\n    d = list(range(len(b) + 1))\n    for i, x in enumerate(a, 1):\n        p, d[0] = d[0], i\n        for j, y in enumerate(b, 1):\n"
         "            p, d[j] = d[j], min(d[j] + 1, d[j-1] + 1, p + (x != y))\n    return d[-1]\n", (("kitten", "sitting"), 3)),
    call("longest increasing subsequence", "from bisect import bisect_left\ndef f(x):\n    t = []\n    for v in x:\n        i = bisect_left(t, v)\n        t[i:i+1] = [v]\n"
         "    return len(t)\n", (([10, 9, 2, 5, 3, 7, 101, 18],), 4)),
    call("travelling salesman by bitmask", "from functools import lru_cache\ndef f(d):\n    n = len(d)\n    @lru_cache(None)\n    def go(m, i):\n        if m == (1 << n) - 1:\n"
         "            return d[i][0]\n        return min(d[i][j] + go(m | 1 << j, j) for j in range(n) if not m >> j & 1)\n    return go(1, 0)\n",
         (([[0, 10, 15, 20], [10, 0, 35, 25], [15, 35, 0, 30], [20, 25, 30, 0]],), 80)),
    call("matrix power", "M = 10**9 + 7\ndef mul(a, b):\n    return [[sum(x * y for x, y in zip(r, c)) % M for c in zip(*b)] for r in a]\ndef f(n):\n    r, b = [[1, 0], [0, 1]], [[1, 1], [1, 0]]\n"
         "    while n:\n        if n & 1: r = mul(r, b)\n        b = mul(b, b)\n        n >>= 1\n    return r[0][1]\n", ((10,), 55), ((10**15,), 648325137)),
    call("z function", "def f(s):\n    z, l, r = [0] * len(s), 0, 0\n    for i in range(1, len(s)):\n        if i < r: z[i] = min(r - i, z[i-l])\n"
         "        while i + z[i] < len(s) and s[z[i]] == s[i+z[i]]: z[i] += 1\n        if i + z[i] > r: l, r = i, i + z[i]\n    return z\n", (("aabaab",), [0, 1, 0, 3, 1, 0])),
    call("prefix function", "def f(s):\n    p = [0] * len(s)\n    for i in range(1, len(s)):\n        k = p[i-1]\n        while k and s[i] != s[k]: k = p[k-1]\n        p[i] = k + (s[i] == s[k])\n"
         "    return p\n", (("abacaba",), [0, 0, 1, 0, 1, 2, 3])),
    call("rolling hash", "def f(s, k):\n    B, M = 131, (1 << 61) - 1\n    h, p, seen = 0, pow(B, k - 1, M), set()\n    for i, c in enumerate(s):\n        if i >= k: h = (h - ord(s[i-k]) * p) % M\n"
         "        h = (h * B + ord(c)) % M\n        if i >= k - 1: seen.add(h)\n    return len(seen)\n", (("abababab", 2), 2)),
    call("topological order", "from graphlib import TopologicalSorter\ndef f(g):\n    return list(TopologicalSorter(g).static_order())\n", (({"c": ["b"], "b": ["a"]},), ["a", "b", "c"])),
    call("bipartite matching", "def f(g, m):\n    match = [-1] * m\n    def go(u, seen):\n        for v in g[u]:\n            if v not in seen:\n                seen.add(v)\n"
         "                if match[v] < 0 or go(match[v], seen):\n                    match[v] = u\n                    return True\n        return False\n"
         "    return sum(go(u, set()) for u in range(len(g)))\n", (([[0, 1], [0], [1, 2]], 3), 3)),
    call("max flow", "from collections import deque\ndef f(n, edges):\n    c = [[0] * n for _ in range(n)]\n    for a, b, w in edges: c[a][b] += w\n    flow = 0\n    while True:\n"
         "        p = [-1] * n; p[0] = 0; q = deque([0])\n        while q:\n            u = q.popleft()\n            for v in range(n):\n                if p[v] < 0 < c[u][v]: p[v] = u; q.append(v)\n"
         "        if p[-1] < 0: return flow\n        v, w = n - 1, 10**9\n        while v: w = min(w, c[p[v]][v]); v = p[v]\n        v = n - 1\n"
         "        while v: c[p[v]][v] -= w; c[v][p[v]] += w; v = p[v]\n        flow += w\n", ((4, [(0, 1, 3), (0, 2, 2), (1, 3, 2), (2, 3, 3), (1, 2, 1)]), 5)),
    call("strongly connected", "import sys\nsys.setrecursionlimit(10**5)\ndef f(n, es):\n    g = [[] for _ in range(n)]\n    for a, b in es: g[a].append(b)\n    idx, low, st, on, out = {}, {}, [], set(), []\n"
         "    def go(u):\n        idx[u] = low[u] = len(idx); st.append(u); on.add(u)\n        for v in g[u]:\n            if v not in idx: go(v); low[u] = min(low[u], low[v])\n"
         "            elif v in on: low[u] = min(low[u], idx[v])\n        if low[u] == idx[u]:\n            c = []\n            while not c or c[-1] != u: c.append(st.pop()); on.discard(c[-1])\n"
         "            out.append(sorted(c))\n    for u in range(n):\n        if u not in idx: go(u)\n    return sorted(out)\n", ((4, [(0, 1), (1, 2), (2, 0), (2, 3)]), [[0, 1, 2], [3]])),
    call("convex hull", "def f(ps):\n    ps = sorted(set(ps))\n    def half(ps):\n        h = []\n        for p in ps:\n"
         "            while len(h) > 1 and (h[-1][0]-h[-2][0])*(p[1]-h[-2][1]) - (h[-1][1]-h[-2][1])*(p[0]-h[-2][0]) <= 0: h.pop()\n            h.append(p)\n        return h[:-1]\n"
         "    return half(ps) + half(ps[::-1])\n", (([(0, 0), (2, 0), (2, 2), (0, 2), (1, 1)],), [(0, 0), (2, 0), (2, 2), (0, 2)])),
    call("miller rabin", "def f(n):\n    if n < 2 or n % 2 == 0: return n == 2\n    d, s = n - 1, 0\n    while d % 2 == 0: d //= 2; s += 1\n    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):\n"
         "        if a % n == 0: continue\n        x = pow(a, d, n)\n        if x in (1, n - 1): continue\n        for _ in range(s - 1):\n            x = x * x % n\n            if x == n - 1: break\n"
         "        else: return False\n    return True\n", ((2**61 - 1,), True), ((561,), False)),
    call("chinese remainders", "from math import prod\ndef f(rs, ms):\n    p = prod(ms)\n    return sum(r * (p // m) * pow(p // m, -1, m) for r, m in zip(rs, ms)) % p\n", (([2, 3, 2], [3, 5, 7]), 23)),
    call("complex fourier", "import cmath\ndef fft(a):\n    n = len(a)\n    if n == 1: return a\n    e, o = fft(a[::2]), fft(a[1::2])\n    w = [cmath.exp(-2j * cmath.pi * k / n) * o[k] for k in range(n // 2)]\n"
         "    return [e[k] + w[k] for k in range(n // 2)] + [e[k] - w[k] for k in range(n // 2)]\ndef f(x):\n    return [round(abs(v), 6) for v in fft(x)]\n", (([1, 0, 0, 0],), [1.0, 1.0, 1.0, 1.0])),
    call("newton's method", "def f(n):\n    x = n\n    while abs(x * x - n) > 1e-12: x = (x + n / x) / 2\n    return x\n", ((2,), 1.41421356237)),
    call("bisection", "def f(a):\n    lo, hi = 0.0, a + 1\n    for _ in range(100):\n        m = (lo + hi) / 2\n        lo, hi = (m, hi) if m ** 3 < a else (lo, m)\n    return lo\n", ((27,), 3.0)),
    call("simulated annealing with a seed", "import random\ndef f():\n    r = random.Random(7)\n    x = 10.0\n    for _ in range(5000):\n        y = x + r.uniform(-1, 1)\n        if y * y < x * x: x = y\n    return abs(x) < 0.1\n",
         ((), True)),
    call("seeded random", "import random\ndef f():\n    random.seed(42)\n    return [random.randint(1, 6) for _ in range(5)], random.random()\n", ((), ([6, 1, 1, 6, 3], 0.24489185380347622))),
    call("sudoku", "def f(g):\n    for i in range(9):\n        for j in range(9):\n            if not g[i][j]:\n                for v in range(1, 10):\n"
         "                    if all(g[i][k] != v and g[k][j] != v and g[i//3*3+k//3][j//3*3+k%3] != v for k in range(9)):\n                        g[i][j] = v\n                        if f(g): return g\n"
         "                g[i][j] = 0\n                return None\n    return g\n",
         (([[5, 3, 4, 6, 7, 8, 9, 1, 2], [6, 7, 2, 1, 9, 5, 3, 4, 8], [1, 9, 8, 3, 4, 2, 5, 6, 7], [8, 5, 9, 7, 6, 1, 4, 2, 3], [4, 2, 6, 8, 5, 3, 7, 9, 1], [7, 1, 3, 9, 2, 4, 8, 5, 6],
            [9, 6, 1, 5, 3, 7, 2, 8, 4], [2, 8, 7, 4, 1, 9, 6, 3, 5], [3, 4, 5, 2, 8, 6, 1, 0, 0]],),
          [[5, 3, 4, 6, 7, 8, 9, 1, 2], [6, 7, 2, 1, 9, 5, 3, 4, 8], [1, 9, 8, 3, 4, 2, 5, 6, 7], [8, 5, 9, 7, 6, 1, 4, 2, 3], [4, 2, 6, 8, 5, 3, 7, 9, 1], [7, 1, 3, 9, 2, 4, 8, 5, 6],
           [9, 6, 1, 5, 3, 7, 2, 8, 4], [2, 8, 7, 4, 1, 9, 6, 3, 5], [3, 4, 5, 2, 8, 6, 1, 7, 9]])),
    call("expression parser", "import re\ndef f(s):\n    t = re.findall(r'\\d+|[-+*/()]', s)[::-1]\n    def atom():\n        x = t.pop()\n        if x == '(':\n            v = add(); t.pop(); return v\n"
         "        return -atom() if x == '-' else int(x)\n    def mul():\n        v = atom()\n        while t and t[-1] in '*/': v = v * atom() if t.pop() == '*' else v // atom()\n        return v\n"
         "    def add():\n        v = mul()\n        while t and t[-1] in '+-': v = v + mul() if t.pop() == '+' else v - mul()\n        return v\n    return add()\n", (("2*(3+4)-10/5",), 12)),
    call("game of life", "from collections import Counter\ndef f(cells, n):\n    live = set(cells)\n    for _ in range(n):\n"
         "        c = Counter((x+i, y+j) for x, y in live for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)\n        live = {p for p, k in c.items() if k == 3 or k == 2 and p in live}\n    return live\n",
         (([(0, 1), (1, 1), (2, 1)], 1), {(1, 0), (1, 1), (1, 2)})),
    call("huffman", "import heapq\nfrom collections import Counter\ndef f(s):\n    h = [(n, i, 0) for i, n in enumerate(Counter(s).values())]\n    heapq.heapify(h)\n    total, k = 0, len(h)\n"
         "    while len(h) > 1:\n        a, b = heapq.heappop(h), heapq.heappop(h)\n        total += a[0] + b[0]; k += 1\n        heapq.heappush(h, (a[0] + b[0], k, 0))\n    return total\n", (("abracadabra",), 23)),
    call("million steps", "def f(n):\n    s = 0\n    for i in range(n):\n        s = (s * 31 + i) % 1000003\n    return s\n", ((1_000_000,), 256782)),
    call("memory of a few megabytes", "def f(n):\n    a = [[0] * n for _ in range(n)]\n    a[n-1][n-1] = 5\n    return sum(map(sum, a))\n", ((1500,), 5)),
    call("big integers", "def f(n):\n    a = 1\n    for i in range(1, n): a *= i\n    return a % (10**9 + 9), a.bit_length()\n", ((2000,), (214314584, 19043))),
)  # fmt: skip
