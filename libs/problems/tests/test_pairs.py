import json
from pathlib import Path
from typing import Any

import pytest

from ratchet_problems import InvalidProblem, Message, fingerprint, load, pairs

ASKED = {"prompt": [{"role": "user", "content": "Add."}]}
ANSWERED = {
    "chosen": [{"role": "assistant", "content": "yes"}],
    "rejected": [{"role": "assistant", "content": "no"}],
}
TEXT = {"prompt": "def f(x):\n", "chosen": "    return x", "rejected": "    pass"}
PROBLEM = {"problem": "Write f(x).", "chosen": "def f(x): return x", "rejected": "def f(x): pass"}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(*lines: object) -> Path:
        path = tmp_path / "mine.jsonl"
        path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))
        return path

    return write


def test_each_form_of_a_line_is_read(write: Any) -> None:
    chat, problem = pairs.read(write(ASKED | ANSWERED, "", PROBLEM))
    assert (chat.messages, chat.chosen, chat.rejected, chat.id) == ((Message("user", "Add."),), "yes", "no", "mine/1")
    assert (problem.problem, problem.chosen, problem.id) == ("Write f(x).", "def f(x): return x", "mine/3")
    assert pairs.form_of([problem, chat]) == "chat"
    assert pairs.form_of([problem]) == ""
    (text,) = pairs.read(write(TEXT | {"id": "t"}))
    assert (text.text, text.form, text.id) == ("def f(x):\n", "completion", "t")


def test_a_prompt_is_what_both_conversations_begin_with(write: Any) -> None:
    begun = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add."}]
    line = {name: begun + answer for name, answer in ANSWERED.items()}
    (pair,) = pairs.read(write(line | {"score_chosen": 8.0, "score_rejected": 2.0}))
    assert pair.messages == (Message("system", "Be brief."), Message("user", "Add."))
    assert (pair.chosen, pair.rejected) == ("yes", "no")
    for same in ({"prompt": begun} | ANSWERED, {"prompt": "Add.", "rating-chosen": 5} | line):
        assert pairs.pairs_digest([pair]) == pairs.pairs_digest(pairs.read(write(same)))


@pytest.mark.parametrize(
    ("chosen", "rejected", "said"),
    [
        (["Add.", "yes"], ["Sum.", "no"], "chosen and rejected are not alike up to their last message"),
        (["Add.", "yes"], ["Add.", "no", "Add.", "no"], "are not alike up to their last message"),
        (["yes"], ["no"], "chosen and rejected have nothing but an answer"),
        ([], [], "are not alike"),
        (["Add.", "yes", "Why?"], ["Add.", "yes", "How?"], "chosen: must be one message of the assistant"),
    ],
)
def test_conversations_that_have_no_prompt_in_common(
    write: Any, chosen: list[str], rejected: list[str], said: str
) -> None:
    def chat(texts: list[str]) -> list[dict[str, str]]:
        roles = ["user", "assistant"] if len(texts) > 1 else ["assistant"]
        return [{"role": roles[place % len(roles)], "content": text} for place, text in enumerate(texts)]

    with pytest.raises(InvalidProblem, match=said):
        pairs.read(write({"chosen": chat(chosen), "rejected": chat(rejected)}))


def test_a_limit_takes_the_first(write: Any) -> None:
    assert [pair.id for pair in pairs.read(write(PROBLEM, TEXT, TEXT), limit=2)] == ["mine/1", "mine/2"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "line 2: line: is not JSON at column 2"),
        ([], "line 2: line: must be a JSON object"),
        (PROBLEM | {"chosen": "def f(x): pass"}, "line 2: rejected: is the same as chosen"),
        (PROBLEM | {"prompt": "x"}, "line 2: prompt: a pair has a prompt or a problem"),
        ({"chosen": "a", "rejected": "b"}, "line 2: prompt: is missing: a pair has a prompt or a problem"),
        (PROBLEM | {"tests": []}, "line 2: tests: unknown field"),
        (PROBLEM | {"rejected": " "}, "line 2: rejected: must be a text that is not empty"),
        (PROBLEM | {"rejected": "\udfff"}, "line 2: rejected: must not hold an unpaired surrogate"),
        ({"problem": "x", "chosen": "a"}, "line 2: rejected: is missing"),
        (ASKED | {"chosen": "a", "rejected": "b"}, "line 2: chosen: must be a list of messages"),
        (ASKED | ANSWERED | {"chosen": [{"role": "user", "content": "a"}]}, "line 2: chosen: must be one message of"),
        (ASKED | ANSWERED | {"prompt": ANSWERED["chosen"]}, "line 2: prompt: ends with an answer"),
        (ASKED | ANSWERED | {"prompt": [{"role": "tool", "content": "x"}]}, r"line 2: prompt\[0\].role: must be one"),
        (ASKED | ANSWERED | {"prompt": [{"role": "user"}]}, r"line 2: prompt\[0\]: must have role and content"),
    ],
)
def test_a_line_that_is_no_pair_is_named(write: Any, line: object, fault: str) -> None:
    with pytest.raises(InvalidProblem, match=fault):
        pairs.read(write(PROBLEM, line))


def test_conversations_and_texts_are_two_files(write: Any) -> None:
    with pytest.raises(InvalidProblem, match="line 2: prompt: is a text, and one before it a conversation"):
        pairs.read(write(ASKED | ANSWERED, TEXT))


def test_a_file_without_pairs_is_none(write: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="holds no pairs"):
        pairs.read(write("", ""))
    with pytest.raises(InvalidProblem, match="No such file"):
        pairs.read(tmp_path / "none.jsonl")


def test_the_digest_is_of_the_content(write: Any) -> None:
    one = pairs.pairs_digest(pairs.read(write(PROBLEM, TEXT)))
    assert one == pairs.pairs_digest(pairs.read(write(TEXT, "", PROBLEM | {"id": "other"})))
    assert one != pairs.pairs_digest(pairs.read(write(PROBLEM, TEXT | {"rejected": "    return 1"})))


def test_a_pair_of_a_problem_has_its_fingerprint(write: Any) -> None:
    known = load("composed/train", limit=1)[0]
    made = {"problem": known.prompt, "chosen": "a", "rejected": "b"}
    asked = {"prompt": [{"role": "user", "content": known.prompt}]} | ANSWERED
    assert {fingerprint(pair.as_problem) for pair in pairs.read(write(made, asked))} == {fingerprint(known)}
