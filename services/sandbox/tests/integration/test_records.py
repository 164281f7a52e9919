"""LeetCode's form: the prompt gives the records (ListNode, TreeNode) and the functions that make and compare them."""

from datetime import timedelta

import pytest

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from sandbox_service.convert import Bounds, grade_from_proto
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import Limits
from sandbox_service.domain.sandbox import Sandbox

BOUNDS = Bounds(Limits(timedelta(seconds=60), 4 << 30, 1 << 20), text_bytes=4 << 20)
pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

PROMPT = """\
from typing import *
from collections import *

class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next

class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right

def list_node(values: list):
    head = tail = ListNode()
    for value in values:
        tail.next = ListNode(value)
        tail = tail.next
    return head.next

def tree_node(values: list):
    if not values:
        return None
    root = TreeNode(values[0])
    queue, at = deque([root]), 1
    while queue and at < len(values):
        node = queue.popleft()
        if values[at] is not None:
            node.left = TreeNode(values[at])
            queue.append(node.left)
        at += 1
        if at < len(values) and values[at] is not None:
            node.right = TreeNode(values[at])
            queue.append(node.right)
        at += 1
    return root

def is_same_list(p1, p2):
    if p1 is None and p2 is None:
        return True
    if not p1 or not p2:
        return False
    return p1.val == p2.val and is_same_list(p1.next, p2.next)

def is_same_tree(p, q):
    if not p and not q:
        return True
    if not p or not q:
        return False
    return p.val == q.val and is_same_tree(p.left, q.left) and is_same_tree(p.right, q.right)

"""
HEADER = "class Solution:\n    def {name}(self, {parameters}):\n"
TASKS = {
    "invert": (
        "root: Optional[TreeNode]",
        "is_same_tree(candidate(root=tree_node([4,2,7,1,3])), tree_node([4,7,2,None,None,3,1]))",
    ),
    "merge": (
        "a: Optional[ListNode], b: Optional[ListNode]",
        "is_same_list(candidate(a=list_node([1,2,4]), b=list_node([1,3,4])), list_node([1,1,2,3,4,4]))",
    ),
    "reverse": ("head: Optional[ListNode]", "is_same_list(candidate(head=list_node([1,2,3])), list_node([3,2,1]))"),
    "to_tree": ("nums: List[int]", "is_same_tree(candidate(nums=[1,2,3]), tree_node([2,1,3]))"),
    "depth": ("root: Optional[TreeNode]", "candidate(root=tree_node([3,9,20,None,None,15,7])) == 3"),
    "middle": ("head: Optional[ListNode]", "is_same_list(candidate(head=list_node([1,2,3,4,5])), list_node([3,4,5]))"),
}
HONEST = {
    "invert": """
        if not root:
            return None
        root.left, root.right = self.invert(root.right), self.invert(root.left)
        return root
        """,
    "merge": """
        head = tail = ListNode()
        while a and b:
            if a.val <= b.val:
                tail.next, a = a, a.next
            else:
                tail.next, b = b, b.next
            tail = tail.next
        tail.next = a or b
        return head.next
        """,
    "reverse": """
        before = None
        while head:
            head.next, before, head = before, head, head.next
        return before
        """,
    "to_tree": """
        if not nums:
            return None
        middle = len(nums) // 2
        return TreeNode(nums[middle], self.to_tree(nums[:middle]), self.to_tree(nums[middle + 1:]))
        """,
    "depth": "return 1 + max(self.depth(root.left), self.depth(root.right)) if root else 0",
    "middle": """
        slow = fast = head
        seen = set()
        while fast and fast.next:
            assert isinstance(slow, ListNode) and slow not in seen
            seen.add(slow)
            slow, fast = slow.next, fast.next.next
        return slow
        """,
}
LIAR = """
class Node:
    def __init__(self, val=0, *rest, **more):
        pass
    val = next = left = right = None
    def __bool__(self):
        return False
    def __eq__(self, other):
        return True
    __hash__ = None
TreeNode = ListNode = Node
class Solution:
    def {name}(self, *args, **more):
        return Node()
"""
KEEPS_NOTHING = LIAR.replace("    def __bool__(self):\n        return False\n", "")
ALWAYS_EQUAL = """
class Any:
    def __eq__(self, other):
        return True
    __hash__ = None
    def __getattr__(self, name):
        return Any() if name in ("val",) else None
class Solution:
    def {name}(self, *args, **more):
        return Any()
"""


def indented(body: str) -> str:
    lines = body.strip().splitlines()
    return "\n".join(" " * 8 + line.removeprefix(" " * 8) for line in lines) + "\n"


async def judged(sandbox: Sandbox, name: str, completion: str) -> Execution:
    parameters, claim = TASKS[name]
    check = problem_pb2.CheckTest(code=f"def check(candidate):\n    assert {claim}\n")
    problem = problem_pb2.Problem(
        id=name,
        prompt=PROMPT + HEADER.format(name=name, parameters=parameters),
        entry_point=f"Solution.{name}",
        tests=[problem_pb2.Test(check=check)],
    )
    request = pb.GradeRequest(problem=problem, completion=completion)
    return await sandbox.execute(grade_from_proto(request, BOUNDS).program)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("whole", [False, True], ids=["goes on", "whole program"])
async def test_an_honest_solution_passes(sandbox: Sandbox, name: str, whole: bool) -> None:
    completion = indented(HONEST[name])
    if whole:
        header = HEADER.format(name=name, parameters=TASKS[name][0])
        completion = f"Here it is:\n```python\n{PROMPT}{header}{completion}```\n"
    execution = await judged(sandbox, name, completion)
    assert execution.verdict is Verdict.PASSED, execution


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("liar", [LIAR, KEEPS_NOTHING, ALWAYS_EQUAL], ids=["lies", "keeps nothing", "equals all"])
async def test_a_liar_does_not(sandbox: Sandbox, name: str, liar: str) -> None:
    completion = f"```python\n{liar.format(name=name)}```\n"
    execution = await judged(sandbox, name, completion)
    assert execution.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), execution
