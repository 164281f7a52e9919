"""Nodes: lists and trees that tests build or walk, of the program's classes and of the prompt's records."""

from sandbox_service.honest import check

NODE = """
class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next
def f(head):
    before = None
    while head:
        head.next, before, head = before, head, head.next
    return before
def build(values):
    head = None
    for value in reversed(values):
        head = Node(value, head)
    return head
def middle(head):
    slow = fast = head
    while fast and fast.next:
        slow, fast = slow.next, fast.next.next
    return slow
"""
TREE = """
class Tree:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right
    def add(self, value):
        side = "left" if value < self.value else "right"
        below = getattr(self, side)
        if below is None:
            setattr(self, side, Tree(value))
        else:
            below.add(value)
    def __iter__(self):
        yield from self.left or ()
        yield self.value
        yield from self.right or ()
def f(tree):
    return 0 if tree is None else 1 + max(f(tree.left), f(tree.right))
def mirrored(tree):
    return tree and Tree(tree.value, mirrored(tree.right), mirrored(tree.left))
"""
CHAIN = """
class Link:
    def __init__(self, value):
        self._value, self._next = value, None
    def value(self):
        return self._value
    def next(self):
        return self._next
class Empty(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.message = message
class Chain:
    def __init__(self, values=()):
        self._first, self._count = None, 0
        for value in values:
            self.push(value)
    def __len__(self):
        return self._count
    def __iter__(self):
        link = self._first
        while link:
            yield link.value()
            link = link.next()
    def push(self, value):
        link = Link(value)
        link._next, self._first = self._first, link
        self._count += 1
    def first(self):
        if self._first is None:
            raise Empty("the chain is empty")
        return self._first
    def turned(self):
        return Chain(self)
"""
WALKED = "found = []\nwhile node:\n    found.append(node.value)\n    node = node.next\n"
CASES = (
    check("a list that tests build by a function", NODE, f"def chain(*values):\n    head = None\n    for value in reversed(values):\n        head = Node(value, head)\n    return head\n"
          f"node = f(chain(1, 2, 3))\n{WALKED}assert found == [3, 2, 1] and f(None) is None\n", names=["Node"]),
    check("a list that tests link by hand", NODE, f"node = Node(1)\nnode.next = Node(2)\nnode.next.next = Node(3)\nnode = f(node)\n{WALKED}assert found == [3, 2, 1]\n", names=["Node"]),
    check("a list that the program builds", NODE, f"node = build([4, 5])\n{WALKED}assert found == [4, 5]\nassert build([]) is None\n", names=["build"]),
    check("a list handed out and in again", NODE, f"node = f(build([1, 2, 3]))\n{WALKED}assert found == [3, 2, 1]\nassert middle(build([1, 2, 3])).value == 2\n", names=["build", "middle"]),
    check("a list within its process", NODE, "head = Node(1, Node(2, Node(3)))\nassert middle(head) is head.next\nassert middle(head).next.value == 3\n", names=["Node", "middle"]),
    check("a tree that tests build", TREE, "t = Tree(5)\nfor v in (3, 8, 1):\n    t.add(v)\nassert list(t) == [1, 3, 5, 8] and f(t) == 3 and t.left.left.value == 1 and t.left.right is None\n", names=["Tree"]),
    check("a tree of trees", TREE, "t = mirrored(Tree(1, Tree(2), Tree(3, Tree(4))))\nassert (t.left.value, t.right.value, t.left.right.value) == (3, 2, 4)\nassert list(t) == [3, 4, 1, 2]\n", names=["Tree", "mirrored"]),
    check("methods of a node", CHAIN, """
        import unittest
        class ChainTest(unittest.TestCase):
            def test_walk(self):
                link = Chain(range(5)).first()
                for i in range(5):
                    self.assertEqual(link.value(), 4 - i)
                    link = link.next()
                self.assertIsNone(link)
            def test_turned(self):
                self.assertEqual(list(Chain([1, 2, 3]).turned()), [1, 2, 3])
                self.assertEqual(len(Chain([1, 2])), 2)
            def test_empty(self):
                with self.assertRaises(Empty) as raised:
                    Chain().first()
                self.assertEqual(type(raised.exception), Empty)
                self.assertEqual(raised.exception.args[0], "the chain is empty")
                self.assertEqual(raised.exception.message, "the chain is empty")
        """, entry="Chain", names=["Empty"]),
    check("records of the prompt", "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n        self.val, self.left, self.right = val, left, right\n"
          "def f(root):\n    if root:\n        root.left, root.right = f(root.right), f(root.left)\n    return root\n",
          "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n        self.val, self.left, self.right = val, left, right\n__records__ = ['TreeNode']\n"
          "def listed(node):\n    return node and [node.val, listed(node.left), listed(node.right)]\n"
          "root = TreeNode(1, TreeNode(2), TreeNode(3))\nassert listed(f(root)) == [1, [3, None, None], [2, None, None]]\nassert root.left.val == 3\n"),
    check("a mapping that is a method", "class Tree:\n    def __init__(self, label, below=()):\n        self.label, self.below = label, list(below)\n    def __dict__(self):\n        return {self.label: [one.__dict__() for one in self.below]}\n"
          "    def __eq__(self, other):\n        return self.__dict__() == other.__dict__()\n    def turned(self):\n        return Tree(self.label, [one.turned() for one in self.below[::-1]])\n",
          "t = Tree('a', [Tree('b'), Tree('c')])\nassert t.turned() == Tree('a', [Tree('c'), Tree('b')])\nassert t.turned() != t and t.turned().turned() == t\n", entry="Tree"),
)  # fmt: skip
