import pytest

from ratchet_problems.helpers import declared, with_helpers

PROMPT = 'import math\nimport numpy\n\ndef poly(x):\n    return math.floor(x)\n\ndef f(x):\n    """One more."""\n'


def test_the_tests_have_the_prompts_own_helpers() -> None:
    check = with_helpers("assert poly(f(1)) == 2", PROMPT, "f")
    scope: dict[str, object] = {"f": lambda x: x + 1}
    exec(check, scope)
    assert scope["poly"](1.5) == 1  # type: ignore[operator]
    assert "numpy" not in check


def test_a_prompt_without_helpers_adds_nothing() -> None:
    assert with_helpers("assert f(1) == 2", "def f(x): ...", "f") == "assert f(1) == 2"
    assert with_helpers("assert f(1) == 2", "Write def f( and def g(.", "f") == "assert f(1) == 2"


RECORD = (
    "class TreeNode:\n    def __init__(self, val=0, left=None):\n        self.val, self.left = val, left\n\n"
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        pass\n\n"
    "def f(root: TreeNode) -> TreeNode:\n"
)


def test_a_prompts_records_are_the_tests_own_and_its_other_classes_are_the_programs() -> None:
    check = "assert f(TreeNode(1)).val == Stack().items"
    assert with_helpers(check, RECORD, "f").startswith("class TreeNode:")
    assert "Stack:" not in with_helpers(check, RECORD, "f")
    assert declared(check, RECORD, "f") == ["Stack"]


def test_the_class_under_test_is_the_programs() -> None:
    prompt = "class Pair:\n    def __init__(self, a):\n        self.a = a\n"
    check = "assert Pair(1).a == 1"
    assert with_helpers(check, prompt, "Pair") == check
    assert declared(check, prompt, "Pair") == []


INIT = "    def __init__(self, x):\n        self.x = x\n"


@pytest.mark.parametrize("head", ["class A:", "class A(object):", "class A( ):", 'class A:\n    """Holds x."""'])
def test_a_record_holds_values(head: str) -> None:
    prompt = f"{head}\n{INIT}\ndef f(a):\n"
    assert with_helpers("assert f(A(1))", prompt, "f").startswith("class A")
    assert declared("assert f(A(1))", prompt, "f") == []


@pytest.mark.parametrize(
    "text",
    [
        f"class A(Exception):\n{INIT}",
        f"class A:\n{INIT}    def __eq__(self, other):\n        return True\n",
        f"class A:\n{INIT}    async def go(self):\n        return 1\n",
        "class A:\n    x = 1\n",
        "class A:\n    def __init__(self, x): ...\n",
        "class A:\n    def __init__(self, x):\n        pass\n",
        "class A:\n    def __init__(self, x):\n        raise NotImplementedError(1)\n",
        'class A:\n    def __init__(self, x):\n        """Keeps x."""\n',
    ],
)
def test_what_does_something_or_is_to_be_written_is_the_programs(text: str) -> None:
    prompt = f"{text}\ndef f(a):\n"
    assert with_helpers("assert f(A(1))", prompt, "f") == "assert f(A(1))"
    assert declared("assert f(A(1))", prompt, "f") == ["A"]


def test_helpers_come_after_statements_that_must_be_first() -> None:
    check = '"""Doc."""\nfrom __future__ import annotations\nassert f(poly(1)) == 2\n'
    scope: dict[str, object] = {"f": lambda x: x + 1}
    exec(with_helpers(check, PROMPT, "f"), scope)
    assert scope["__doc__"] == "Doc."
    text = "assert f('from __future__ import x') != poly(1)\n"
    assert with_helpers(text, PROMPT, "f").endswith(text)
