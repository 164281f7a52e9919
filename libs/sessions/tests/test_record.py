"""A session that is kept and read again is the same, token by token."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from google.protobuf import json_format, struct_pb2

from ratchet_problems import Message
from ratchet_sessions import Question, Session, record
from ratchet_sessions.session import Failed
from ratchet_testing.chats import FORMS

from .test_continuity import NOW, RUN, Program


async def played(form: str, seed: int) -> Session:
    program = Program(form, seed)
    for place in range(8):
        await program.step()
        if place % 3 == 2:
            asked = Question("m", tuple(program.messages), RUN if place == 2 else None, "{}" if place == 5 else "")
            program.session.fail(Failed(asked, "busy", place == 2, NOW, NOW + timedelta(seconds=place)))
    return program.session


@pytest.mark.parametrize("form", FORMS)
async def test_a_session_is_read_again_as_it_was(form: str) -> None:
    for seed in range(10):
        session = await played(form, seed)
        kept = json.dumps(record.to_json(session))
        again = record.from_json(json.loads(kept))
        assert again == session
        assert list(again.paths()) == list(session.paths())
        assert (again.lost, again.branches) == (session.lost, session.branches)
        over_rest = json_format.MessageToDict(json_format.ParseDict(json.loads(kept), struct_pb2.Struct()))
        assert record.from_json(over_rest) == session, "numbers of a Struct are fractions"
        question = Question("m", (Message("user", "something else"),))
        assert again.origin(question) == session.origin(question), "it goes on as the other would"


async def test_what_a_call_goes_on_from_is_kept_once() -> None:
    session = await played("qwen2.5", 3)
    calls = record.to_json(session)["calls"]
    assert any(call["parent"] is not None for call in calls)
    for call, kept in zip(session.calls, calls, strict=True):
        if call.origin.parent is not None:
            base = session.calls[call.origin.parent]
            assert kept["ids_kept"] == len(base.ids)
            assert (kept["messages_kept"], len(kept["messages"])) == (
                len(base.question.messages) + 1,
                len(call.question.messages) - len(base.question.messages) - 1,
            )


async def test_each_message_of_a_program_is_new_once_as_long_as_it_rewrites_none() -> None:
    session = await played("qwen2.5", 3)
    straight = Session(session.calls[:1])
    first = straight.calls[0]
    asked = replace(first.question, messages=(*first.question.messages, first.answer, Message("user", "more")))
    origin = straight.origin(asked)
    straight.calls.append(replace(first, index=1, question=asked, origin=origin))
    assert record.new_messages(straight) == [first.question.messages, (Message("user", "more"),)]


def test_something_else_is_no_session() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        record.from_json({"calls": [{"index": 0}], "failed": []})
