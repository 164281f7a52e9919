"""Few-shot: solved problems before a problem, rendered as training and measuring render them."""

from dataclasses import replace

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Message, Problem, StdioTest
from ratchet_problems.examples import Examples
from ratchet_problems.prompting import OWN_PROMPTING


def solved(number: int, **others: object) -> Problem:
    tests = (StdioTest("", f"{number}\n"),)
    return Problem(f"p{number}", f"Print {number}.", tests, references=(f"print({number})",), **others)  # type: ignore[arg-type]


SOLVED = [solved(number) for number in range(4)]
PROBLEM = Problem("q", "Print 9.", (StdioTest("", "9\n"),))


def test_the_first_solved_ones_stand_after_the_system_and_before_the_problem() -> None:
    unsolved, chat = replace(SOLVED[0], references=()), replace(SOLVED[1], conversation=(Message("user", "Hi."),))
    examples = Examples.of("mine", [unsolved, chat, *SOLVED[2:]], 2)
    put = OWN_PROMPTING.put(examples.before(PROBLEM.under("Be brief.")), "chat")
    assert put.messages == (
        Message("system", "Be brief."),
        Message("user", "Print 2."),
        Message("assistant", "print(2)"),
        Message("user", "Print 3."),
        Message("assistant", "print(3)"),
        Message("user", "Print 9."),
    )
    assert put.shots == 2


def test_they_come_before_a_conversation() -> None:
    talked = replace(PROBLEM, conversation=(Message("user", "Hi."), Message("assistant", "Yes?")))
    put = OWN_PROMPTING.put(Examples.of("mine", SOLVED, 1).before(talked), "chat")
    assert [message.content for message in put.messages] == ["Print 0.", "print(0)", "Hi.", "Yes?", "Print 9."]


def test_as_text_each_is_whole_before_the_next_begins() -> None:
    put = OWN_PROMPTING.put(Examples.of("mine", SOLVED, 2).before(PROBLEM), "completion")
    assert put.text == "Print 0.\nprint(0)\n\nPrint 1.\nprint(1)\n\nPrint 9.\n"
    begun = replace(SOLVED[0], prompt="def f():\n", references=("def f():\n    return 0\n",), entry_point="f")
    put = OWN_PROMPTING.put(Examples.of("mine", [begun], 1).before(PROBLEM), "completion")
    assert put.text == "def f():\n    return 0\n\nPrint 9.\n"


@pytest.mark.parametrize(
    "near",
    [
        SOLVED[0],
        replace(SOLVED[0], id="other", prompt=" print  0. "),
        replace(SOLVED[0], prompt="Write a zero."),
        replace(SOLVED[0], prompt="Say.", tests=(StdioTest("", "x"),), structure="same"),
    ],
)
def test_none_gives_the_problem_away(near: Problem) -> None:
    first = replace(SOLVED[0], structure="same")
    shown = Examples.of("mine", [first, *SOLVED[1:]], 2).before(near).examples
    assert [one.id for one in shown] == ["p1", "p2"]


def test_a_problem_is_the_same_with_examples() -> None:
    before = Examples.of("mine", SOLVED, 2).before(PROBLEM)
    assert (before, before.digest, before.to_json()) == (PROBLEM, PROBLEM.digest, PROBLEM.to_json())
    assert Examples().before(PROBLEM) is PROBLEM


def test_what_cannot_be_shown_is_said() -> None:
    with pytest.raises(InvalidArgument, match=r"mine has 4 solved problems .* 5 are to be examples"):
        Examples.of("mine", SOLVED, 5)
    before = Examples.of("mine", SOLVED, 1).before(PROBLEM)
    for form in ("chat", "completion"):
        with pytest.raises(InvalidArgument, match="leave shots out"):
            OWN_PROMPTING.put(before, form, shots=1)  # type: ignore[arg-type]
