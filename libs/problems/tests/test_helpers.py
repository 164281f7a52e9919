from ratchet_problems.helpers import with_helpers

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
