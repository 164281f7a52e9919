"""A problem as a chat and as text to go on with."""

from dataclasses import replace

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Message, Problem, StdioTest
from ratchet_problems.prompting import END_OF_TEXT, EVALPLUS_STOP, FUNCTION_STOP, OWN_PROMPTING, Prompt, Prompting, at

PROBLEM = Problem("p", "def f(x):\n", (CallTest("[1]", "2"),), entry_point="f")
RULES = Prompting(
    message=lambda problem: f"Solve {problem.prompt}", stop=at("\nclass"), examples=("one\n", "two\n"), shots=1
)


def test_a_chat_has_one_message_of_the_user() -> None:
    prompt = RULES.put(PROBLEM, "chat")
    assert [(message.role, message.content) for message in prompt.messages] == [("user", "Solve def f(x):\n")]
    assert (prompt.text, prompt.stop, prompt.shots) == ("", (), 0)


def test_a_conversation_goes_before_and_is_no_text() -> None:
    system = Message("system", "Be brief.")
    asked = replace(PROBLEM, conversation=(system,))
    assert RULES.put(asked, "chat").messages == (system, Message("user", "Solve def f(x):\n"))
    with pytest.raises(InvalidArgument, match="p is a conversation: only a chat template can put it"):
        RULES.put(asked, "completion")


@pytest.mark.parametrize(("shots", "text"), [(None, "one\n"), (0, ""), (2, "one\ntwo\n")])
def test_a_text_has_examples_in_front(shots: int | None, text: str) -> None:
    prompt = RULES.put(PROBLEM, "completion", shots)
    assert prompt.text == f"{text}def f(x):\n"
    assert prompt.stop == ("\nclass",)
    assert not prompt.messages


def test_more_shots_than_examples_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="0 to 2"):
        RULES.put(PROBLEM, "completion", 3)
    with pytest.raises(InvalidArgument, match="chat"):
        RULES.put(PROBLEM, "chat", 1)


@pytest.mark.parametrize(
    ("prompt", "entry_point", "text", "stop"),
    [
        ("Write f(x) that returns x.", "f", "Write f(x) that returns x.\n", EVALPLUS_STOP),
        ('def f(x):\n    """x."""\n', "f", 'def f(x):\n    """x."""\n', FUNCTION_STOP),
        ("Print the sum of two numbers.", "", "Print the sum of two numbers.\n", END_OF_TEXT),
    ],
)
def test_problems_of_ones_own_end_where_their_kind_of_program_does(
    prompt: str, entry_point: str, text: str, stop: tuple[str, ...]
) -> None:
    test = CallTest("[1]", "2") if entry_point else StdioTest("1 1", "2")
    put = OWN_PROMPTING.put(Problem("p", prompt, (test,), entry_point), "completion")
    assert (put.text, put.stop) == (text, stop)


def test_what_is_asked_for_is_no_end() -> None:
    problem = Problem("p", "Write main(x) that returns x.", (CallTest("[1]", "1"),), "main")
    assert "\ndef main(" not in OWN_PROMPTING.put(problem, "completion").stop


def test_a_completion_is_cut_at_its_first_end() -> None:
    prompt = Prompt(text="Write f.\n", stop=("\nprint(", "\nif __name__"))
    assert prompt.cut("def f(x):\n    return x\nif __name__ == 1:\n    pass\nprint(f(1))") == "def f(x):\n    return x"
    assert prompt.cut("def f(x): ...") == "def f(x): ..."
