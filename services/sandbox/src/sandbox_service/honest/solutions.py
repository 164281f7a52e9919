"""LeetCode's form: a class Solution and its method, and classes that are designed."""

from sandbox_service.honest import call, check

TREE = """
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val, self.left, self.right = val, left, right

def build(values):
    nodes = [None if v is None else TreeNode(v) for v in values]
    kids = nodes[::-1]
    root = kids.pop() if kids else None
    for node in nodes:
        if node:
            if kids: node.left = kids.pop()
            if kids: node.right = kids.pop()
    return root

"""
CASES = (
    call("two sum", """
        from typing import List
        class Solution:
            def twoSum(self, nums: List[int], target: int) -> List[int]:
                seen = {}
                for i, n in enumerate(nums):
                    if target - n in seen:
                        return [seen[target - n], i]
                    seen[n] = i
        """, (([2, 7, 11, 15], 9), [0, 1]), (([3, 3], 6), [0, 1]), entry="Solution.twoSum"),
    call("state in init", "class Solution:\n    def __init__(self):\n        self.n = 0\n    def go(self, x):\n        self.n += x\n"
         "        return self.n\n", ((1,), 1), ((1,), 1), entry="Solution.go"),
    call("helper methods", "class Solution:\n    def dfs(self, g, i, seen):\n        seen.add(i)\n        for j in g[i]:\n            if j not in seen:\n"
         "                self.dfs(g, j, seen)\n    def count(self, n, edges):\n        g = [[] for _ in range(n)]\n        for a, b in edges:\n"
         "            g[a].append(b)\n            g[b].append(a)\n        seen, c = set(), 0\n        for i in range(n):\n            if i not in seen:\n"
         "                c += 1\n                self.dfs(g, i, seen)\n        return c\n", ((5, [[0, 1], [1, 2], [3, 4]]), 2), entry="Solution.count"),
    call("longest substring", "class Solution:\n    def f(self, s):\n        last, start, best = {}, 0, 0\n        for i, c in enumerate(s):\n"
         "            start = max(start, last.get(c, -1) + 1)\n            last[c] = i\n            best = max(best, i - start + 1)\n        return best\n",
         (("abcabcbb",), 3), (("",), 0), entry="Solution.f"),
    call("tree depth", TREE + "class Solution:\n    def f(self, values):\n        def d(n):\n            return 0 if not n else 1 + max(d(n.left), d(n.right))\n"
         "        return d(build(values))\n", (([3, 9, 20, None, None, 15, 7],), 3), entry="Solution.f"),
    call("level order", TREE + "from collections import deque\nclass Solution:\n    def f(self, values):\n        q, out = deque([build(values)]), []\n"
         "        while q:\n            row = []\n            for _ in range(len(q)):\n                n = q.popleft()\n                row.append(n.val)\n"
         "                q.extend(c for c in (n.left, n.right) if c)\n            out.append(row)\n        return out\n",
         (([3, 9, 20, None, None, 15, 7],), [[3], [9, 20], [15, 7]]), entry="Solution.f"),
    call("linked list reversed", "class ListNode:\n    def __init__(self, val, next=None):\n        self.val, self.next = val, next\nclass Solution:\n"
         "    def f(self, xs):\n        head = None\n        for x in xs:\n            head = ListNode(x, head)\n        out = []\n        while head:\n"
         "            out.append(head.val)\n            head = head.next\n        return out\n", (([1, 2, 3],), [3, 2, 1]), entry="Solution.f"),
    call("number of islands", "class Solution:\n    def f(self, grid):\n        def sink(i, j):\n            if 0 <= i < len(grid) and 0 <= j < len(grid[0]) and grid[i][j] == '1':\n"
         "                grid[i][j] = '0'\n                for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1)):\n                    sink(i + a, j + b)\n                return 1\n"
         "            return 0\n        return sum(sink(i, j) for i in range(len(grid)) for j in range(len(grid[0])))\n",
         (([["1", "1", "0"], ["0", "0", "1"]],), 2), entry="Solution.f"),
    call("coin change", "class Solution:\n    def f(self, coins, amount):\n        dp = [0] + [float('inf')] * amount\n        for c in coins:\n"
         "            for a in range(c, amount + 1):\n                dp[a] = min(dp[a], dp[a - c] + 1)\n        return dp[amount] if dp[amount] < float('inf') else -1\n",
         (([1, 2, 5], 11), 3), (([2], 3), -1), entry="Solution.f"),
    call("n queens", "class Solution:\n    def f(self, n):\n        out = []\n        def go(row, cols):\n            if row == n:\n"
         "                out.append(['.' * c + 'Q' + '.' * (n - c - 1) for c in cols])\n                return\n            for c in range(n):\n"
         "                if all(c != k and abs(c - k) != row - r for r, k in enumerate(cols)):\n                    go(row + 1, cols + [c])\n        go(0, [])\n"
         "        return out\n", ((4,), [[".Q..", "...Q", "Q...", "..Q."], ["..Q.", "Q...", "...Q", ".Q.."]]), entry="Solution.f"),
    call("word break with memory", "import functools\nclass Solution:\n    def f(self, s, words):\n        @functools.cache\n        def ok(i):\n"
         "            return i == len(s) or any(s.startswith(w, i) and ok(i + len(w)) for w in words)\n        return ok(0)\n",
         (("leetcode", ["leet", "code"]), True), (("catsandog", ["cats", "dog", "sand", "and", "cat"]), False), entry="Solution.f"),
    call("trie", "class Trie:\n    def __init__(self):\n        self.kids, self.end = {}, False\n    def insert(self, w):\n        n = self\n        for c in w:\n"
         "            n = n.kids.setdefault(c, Trie())\n        n.end = True\n    def search(self, w):\n        n = self\n        for c in w:\n"
         "            n = n.kids.get(c)\n            if not n:\n                return False\n        return n.end\ndef f(words, asked):\n    t = Trie()\n"
         "    for w in words:\n        t.insert(w)\n    return [t.search(a) for a in asked]\n", ((["apple", "app"], ["app", "ap"]), [True, False])),
    call("operations in a row", "class MinStack:\n    def __init__(self):\n        self.s = []\n    def push(self, x):\n        self.s.append((x, min(x, self.s[-1][1]) if self.s else x))\n"
         "    def pop(self):\n        self.s.pop()\n    def top(self):\n        return self.s[-1][0]\n    def getMin(self):\n        return self.s[-1][1]\n"
         "def f(ops, args):\n    s = MinStack()\n    return [getattr(s, o)(*a) for o, a in zip(ops, args)]\n",
         ((["push", "push", "getMin", "pop", "top"], [[2], [1], [], [], []]), [None, None, 1, None, 2])),
    check("LRU cache", """
        from collections import OrderedDict
        class LRUCache:
            def __init__(self, capacity):
                self.capacity, self.d = capacity, OrderedDict()
            def get(self, key):
                if key not in self.d:
                    return -1
                self.d.move_to_end(key)
                return self.d[key]
            def put(self, key, value):
                self.d[key] = value
                self.d.move_to_end(key)
                if len(self.d) > self.capacity:
                    self.d.popitem(last=False)
        """, """
        cache = candidate(2)
        cache.put(1, 1)
        cache.put(2, 2)
        assert cache.get(1) == 1
        cache.put(3, 3)
        assert cache.get(2) == -1
        assert cache.get(3) == 3
        """, entry="LRUCache"),
    check("bank account", "class Account:\n    def __init__(self, owner, balance=0):\n        self.owner, self.balance = owner, balance\n    def deposit(self, n):\n"
          "        self.balance += n\n    def withdraw(self, n):\n        if n > self.balance:\n            raise ValueError('too much')\n        self.balance -= n\n",
          "a = Account('ann', balance=5)\na.deposit(10)\na.withdraw(3)\nassert a.balance == 12 and a.owner == 'ann'\ntry:\n    a.withdraw(100)\n"
          "    assert False\nexcept ValueError as error:\n    assert 'too much' in str(error)\n", entry="Account"),
    check("class with len and iteration", "class Bag:\n    def __init__(self, items=()):\n        self.items = list(items)\n    def __len__(self):\n        return len(self.items)\n"
          "    def __iter__(self):\n        return iter(self.items)\n    def __contains__(self, x):\n        return x in self.items\n    def __getitem__(self, i):\n"
          "        return self.items[i]\n", "b = Bag([3, 1])\nassert len(b) == 2 and list(b) == [3, 1] and 3 in b and 5 not in b and b[1] == 1 and b[-1] == 1\n"
          "assert sorted(b) == [1, 3]\nassert b[0:1] == [3]\n", entry="Bag"),
    check("class with operators", "class V:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __add__(self, o):\n        return V(self.x + o.x, self.y + o.y)\n"
          "    def __mul__(self, k):\n        return V(self.x * k, self.y * k)\n    __rmul__ = __mul__\n    def __eq__(self, o):\n        return (self.x, self.y) == (o.x, o.y)\n"
          "    def __hash__(self):\n        return hash((self.x, self.y))\n    def __repr__(self):\n        return f'V({self.x}, {self.y})'\n    def __abs__(self):\n"
          "        return (self.x ** 2 + self.y ** 2) ** 0.5\n    def __bool__(self):\n        return bool(self.x or self.y)\n",
          "a = V(3, 4)\nassert abs(a) == 5.0\nassert bool(a) and not V(0, 0)\nassert repr(a) == 'V(3, 4)'\n", entry="V"),
    check("counter of the class", "class C:\n    made = 0\n    def __init__(self):\n        C.made += 1\n", "C()\nC()\nassert C.made == 2\n", entry="C"),
    check("queue of two stacks", "class MyQueue:\n    def __init__(self):\n        self.a, self.b = [], []\n    def push(self, x):\n        self.a.append(x)\n    def pop(self):\n"
          "        self.peek()\n        return self.b.pop()\n    def peek(self):\n        if not self.b:\n            while self.a:\n                self.b.append(self.a.pop())\n"
          "        return self.b[-1]\n    def empty(self):\n        return not self.a and not self.b\n",
          "q = MyQueue()\nq.push(1)\nq.push(2)\nassert q.peek() == 1\nassert q.pop() == 1\nassert q.empty() is False or not q.empty()\n", entry="MyQueue"),
    check("Solution in check tests", "class Solution:\n    def f(self, x):\n        return x + 1\n", "def check(candidate):\n    assert candidate(1) == 2\n", entry="Solution.f"),
    check("Solution made by the tests", "class Solution:\n    def f(self, x):\n        return x + 1\n", "s = Solution()\nassert s.f(1) == 2\nassert Solution().f(5) == 6\n",
          entry="Solution"),
)  # fmt: skip
