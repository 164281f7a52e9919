"""A session as JSON, to be kept and read again by others.

    "messages": those that are new; before them stand the first "messages_kept" of the call's base with its answer
    "prompt_ids": those that are new; before them stand the first "ids_kept" of the base's prompt and answer

The base of a call is its parent, else the call that its branch names; that of a call that failed is named, the newest
before it. Without one nothing is kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ratchet_policies import Begun, FinishReason, Tool, Tools
from ratchet_problems import Message, ToolCall
from ratchet_sessions.session import Branch, BranchReason, Call, Failed, Origin, Question, Session

_MOST_TEXT = 64 << 10


def to_json(session: Session) -> dict[str, Any]:
    """Calls with their new messages, tools, new token ids and log-probs; where branches begin; and what failed."""
    return {
        "calls": [_call(call, _base(call.origin, session.calls)) for call in session.calls],
        "failed": [_failed(one, session.calls) for one in session.failed],
    }


def from_json(kept: Mapping[str, Any]) -> Session:
    """The session that `to_json` was given: `paths()` has the same ids. Raises KeyError, TypeError, ValueError for
    something else."""
    calls: list[Call] = []
    for one in kept["calls"]:
        calls.append(_to_call(one, calls))
    return Session(calls, [_to_failed(one, calls) for one in kept["failed"]])


def new_messages(session: Session) -> list[tuple[Message, ...]]:
    """For each call the messages that its program added since the call that it goes on from, or leaves."""
    return [_new(call, _base(call.origin, session.calls))[1] for call in session.calls]


def as_text(session: Session) -> str:
    """The last call with all that it goes on from, for people; the end of it, where it is long."""
    if not session.calls:
        return ""
    last = session.calls[-1]
    return "\n\n".join(map(_said, (*last.question.messages, last.answer)))[-_MOST_TEXT:]


def _said(message: Message) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {message.content}{calls}"


def _base(origin: Origin, calls: Sequence[Call]) -> Call | None:
    place = origin.parent if origin.parent is not None else origin.branch.call if origin.branch else None
    return None if place is None else calls[place]


def _past(base: Call | None) -> tuple[Message, ...]:
    return (*base.question.messages, base.answer) if base else ()


def _new(call: Call, base: Call | None) -> tuple[int, tuple[Message, ...]]:
    """How many of the base's messages are kept, and those that come after them."""
    kept = _same(_past(base), call.question.messages)
    return kept, call.question.messages[kept:]


def _same(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the beginning that two have in common."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(place for place in range(shorter) if one[place] != other[place])


def _call(call: Call, base: Call | None) -> dict[str, Any]:
    branch = call.origin.branch
    kept, messages = _new(call, base)
    ids_kept = _same(base.ids if base else (), call.prompt_ids)
    return {
        "index": call.index,
        "role": call.question.role,
        "parent": call.origin.parent,
        "branch": asdict(branch) if branch else None,
        "messages_kept": kept,
        "messages": [asdict(message) for message in messages],
        "tools": asdict(call.question.tools) if call.question.tools else None,
        "json_schema": call.question.json_schema,
        "reasoning": call.reasoning,
        "answer": asdict(call.answer),
        "ids_kept": ids_kept,
        "prompt_ids": call.prompt_ids[ids_kept:],
        "token_ids": call.token_ids,
        "log_probs": call.log_probs,
        "policy_id": call.policy_id,
        "finish_reason": call.finish_reason,
        "start_time": call.start_time.isoformat(),
        "end_time": call.end_time.isoformat(),
    }


def _to_call(one: Mapping[str, Any], calls: Sequence[Call]) -> Call:
    parent = None if one["parent"] is None else int(one["parent"])
    branch = _to_branch(one["branch"]) if one["branch"] else None
    base = _base(Origin(parent, branch=branch), calls)
    begun = Begun(calls[parent].ids, len(_past(calls[parent]))) if parent is not None else None
    kept_ids = base.ids[: int(one["ids_kept"])] if base else ()
    return Call(
        index=int(one["index"]),
        question=_question(one, base),
        origin=Origin(parent, begun, branch),
        answer=_to_message(one["answer"]),
        prompt_ids=kept_ids + _ints(one["prompt_ids"]),
        token_ids=_ints(one["token_ids"]),
        log_probs=tuple(map(float, one["log_probs"])),
        policy_id=one["policy_id"],
        finish_reason=FinishReason(one["finish_reason"]),
        start_time=datetime.fromisoformat(one["start_time"]),
        end_time=datetime.fromisoformat(one["end_time"]),
        reasoning=one.get("reasoning", ""),
    )


def _question(one: Mapping[str, Any], base: Call | None) -> Question:
    messages = (*_past(base)[: int(one["messages_kept"])], *map(_to_message, one["messages"]))
    tools = _to_tools(one["tools"]) if one["tools"] else None
    return Question(one["role"], messages, tools, one["json_schema"])


def _ints(values: Iterable[float]) -> tuple[int, ...]:
    """Numbers may have become fractions on their way (google.protobuf.Struct)."""
    return tuple(map(int, values))


def _to_branch(one: Mapping[str, Any]) -> Branch:
    call = one["call"]
    return Branch(BranchReason(one["reason"]), None if call is None else int(call), int(one["message"]))


def _to_message(one: Mapping[str, Any]) -> Message:
    calls = (ToolCall(it["name"], it["arguments"], it["id"], int(it["index"])) for it in one["tool_calls"])
    return Message(one["role"], one["content"], tuple(calls), one["tool_call_id"])


def _to_tools(one: Mapping[str, Any]) -> Tools:
    return Tools(**{**one, "offered": tuple(Tool(**tool) for tool in one["offered"])})


def _failed(one: Failed, calls: Sequence[Call]) -> dict[str, Any]:
    before = (it for it in reversed(calls) if it.start_time <= one.start_time and it.question.role == one.question.role)
    base = next(before, None)
    kept = _same(_past(base), one.question.messages)
    return {
        "role": one.question.role,
        "base": base.index if base else None,
        "messages_kept": kept,
        "messages": [asdict(message) for message in one.question.messages[kept:]],
        "tools": asdict(one.question.tools) if one.question.tools else None,
        "json_schema": one.question.json_schema,
        "reason": one.reason,
        "is_fault": one.is_fault,
        "start_time": one.start_time.isoformat(),
        "end_time": one.end_time.isoformat(),
    }


def _to_failed(one: Mapping[str, Any], calls: Sequence[Call]) -> Failed:
    base = None if one["base"] is None else calls[int(one["base"])]
    return Failed(
        question=_question(one, base),
        reason=one["reason"],
        is_fault=one["is_fault"],
        start_time=datetime.fromisoformat(one["start_time"]),
        end_time=datetime.fromisoformat(one["end_time"]),
    )
