"""A problem as a chat and as text to go on with."""

import pytest

from ratchet_benchmarks import Prompting
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem

PROBLEM = Problem("p", "def f(x):\n", (CallTest("[1]", "2"),), entry_point="f")
RULES = Prompting(
    message=lambda problem: f"Solve {problem.prompt}", stop=("\nclass",), examples=("one\n", "two\n"), shots=1
)


def test_a_chat_has_one_message_of_the_user() -> None:
    prompt = RULES.put(PROBLEM, "chat")
    assert [(message.role, message.content) for message in prompt.messages] == [("user", "Solve def f(x):\n")]
    assert (prompt.text, prompt.stop, prompt.shots) == ("", (), 0)


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
