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
