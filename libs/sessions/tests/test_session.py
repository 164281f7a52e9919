"""A session of a program that is not to be trusted."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from ratchet_kit.errors import ResourceExhausted
from ratchet_policies import Completion, FinishReason, Tool, Tools
from ratchet_problems import Message
from ratchet_sessions import Failed, Question, Session
from ratchet_sessions import session as sessions

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Text(str):
    """Counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def ask(session: Session, question: Question) -> None:
    origin = session.origin(question)
    made = Completion(0, "yes", FinishReason.STOP, (2,), (-0.5,))
    ids = (*(origin.begun.ids if origin.begun else ()), 1)
    session.record(question, origin, Message("assistant", "yes"), made, ids, "p", NOW, NOW)


def texts(count: int) -> list[Message]:
    """As a request has them: new ones each time."""
    said = (("user", f"question {place // 2}") if place % 2 == 0 else ("assistant", "yes") for place in range(count))
    return [Message(role, Text(text)) for role, text in said]


@pytest.mark.parametrize("tools", [None, Tools((Tool("run"),))])
def test_a_question_is_compared_with_the_past_once_however_many_calls_there_are(tools: Tools | None) -> None:
    session, calls = Session(), 60
    Text.compared = 0
    for call in range(calls):
        ask(session, Question("m", tuple(texts(2 * call + 1)), tools))
    assert [one.origin.parent for one in session.calls] == [None, *range(calls - 1)]
    messages = calls * calls  # of all questions together
    assert Text.compared <= 4 * messages


def test_what_is_said_again_is_kept_once() -> None:
    session = Session()
    for call in range(3):
        ask(session, Question("m", tuple(texts(2 * call + 1))))
    first, *_, last = session.calls
    assert last.question.messages[0] is first.question.messages[0]
    assert last.question.messages[1] is first.answer


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_is_full_of_letters_too(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_TEXT", 10_000)
    session = Session()

    def asks() -> Sequence[int]:
        for call in range(20):
            question = Question("m", (Message("user", f"{call}"),), json_schema=" " * 1000)
            session.origin(question)
            if fails:
                session.fail(Failed(question, "too long", False, NOW, NOW))
            else:
                ask(session, question)
        return range(20)

    with pytest.raises(ResourceExhausted, match="letters"):
        asks()
    assert len(session.calls) + len(session.failed) == (10 if fails else 9), "answers count as well"


def test_a_fault_is_kept_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the episode would be judged, as if the program had had all its answers."""
    monkeypatch.setattr(sessions, "MAX_CALLS", 1)
    session = Session()
    ask(session, Question("m", (Message("user", "one"),)))
    for is_fault in (True, False):
        session.fail(Failed(Question("m", (Message("user", "two"),)), "the engine is gone", is_fault, NOW, NOW))
    assert [one.is_fault for one in session.failed] == [True] == [one.is_fault for one in session.lost]
