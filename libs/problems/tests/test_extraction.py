import pytest

from ratchet_problems.extraction import extract_code

FUNCTION = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    "completion",
    [
        FUNCTION,
        f"```python\n{FUNCTION}```",
        f"Sure! Here it is:\n\n```python\n{FUNCTION}```\nHope that helps.",
        f"```python\n{FUNCTION}",
        f"~~~py\n{FUNCTION}~~~",
        f"Here is the function:\n{FUNCTION}",
        f"{FUNCTION}\nThis adds the two numbers and returns their sum.",
        f"{FUNCTION}<|im_end|>",
        f"<think>maybe ```python\ndef add(): pass\n``` no</think>\n{FUNCTION}",
        f"First try:\n```python\ndef add(a, b):\n    return a\n```\nBetter:\n```python\n{FUNCTION}```",
        f"```python\n{FUNCTION}```\nRun it:\n```bash\npython add.py\n```",
        f"```python\n{FUNCTION}```\nUse:\n```python\nprint(add(1, 2))\n```",
        f"```\r\n{FUNCTION}```".replace("\n", "\r\n"),
        f"  ```python\n{FUNCTION}  ```",
    ],
)
def test_finds_the_function(completion: str) -> None:
    namespace: dict = {}
    exec(extract_code(completion, "add"), namespace)
    assert namespace["add"](2, 3) == 5


def test_what_cannot_be_found_is_not_invented() -> None:
    assert extract_code("I am not able to do that.", "add") == "I am not able to do that."
    assert extract_code("", "add") == ""


def test_broken_code_stays_broken() -> None:
    assert extract_code("def add(a, b:\n    return", "add").startswith("def add(a, b:")


def test_a_lone_surrogate_becomes_valid_utf8() -> None:
    extract_code("x = '\udc80'").encode()


def test_a_string_with_a_fence_in_it_is_no_fence() -> None:
    code = 'def add(a, b):\n    """\n    >>> x = "```"\n    """\n    return a + b\n'
    assert extract_code(code, "add") == code


def test_an_unclosed_thought_leaves_nothing() -> None:
    assert extract_code("<think>hm\ndef add(a, b): ...") == ""


def test_deep_nesting_does_not_raise() -> None:
    extract_code("x = " + "(" * 100_000)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "```" + "a" * 1_000_000,
        "def f(:\n" * 100_000,
        "import a\n" + "x = [\n" * 150_000,
        "```\n" * 200_000,
        "<think>" * 150_000,
    ],
)
def test_a_long_text_takes_no_time_that_grows_with_its_square(text: str) -> None:
    assert isinstance(extract_code(text, "f"), str)
