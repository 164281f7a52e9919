"""A session as JSON, to be kept and read again by others."""

from dataclasses import asdict
from typing import Any

from ratchet_problems import Message
from ratchet_sessions.session import Call, Failed, Session

_MOST_TEXT = 64 << 10


def to_json(session: Session) -> dict[str, Any]:
    """Calls with their messages, tools, token ids and log-probs; where branches begin; and what failed."""
    return {"calls": [_call(call) for call in session.calls], "failed": [_failed(one) for one in session.failed]}


def as_text(session: Session) -> str:
    """The last call with all that it goes on from, for people; the end of it, where it is long."""
    if not session.calls:
        return ""
    last = session.calls[-1]
    return "\n\n".join(map(_said, (*last.question.messages, last.answer)))[-_MOST_TEXT:]


def _said(message: Message) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {message.content}{calls}"


def _call(call: Call) -> dict[str, Any]:
    branch = call.origin.branch
    return {
        "index": call.index,
        "role": call.question.role,
        "parent": call.origin.parent,
        "branch": asdict(branch) if branch else None,
        "messages": [asdict(message) for message in call.question.messages],
        "tools": asdict(call.question.tools) if call.question.tools else None,
        "json_schema": call.question.json_schema,
        "answer": asdict(call.answer),
        "prompt_ids": call.prompt_ids,
        "token_ids": call.token_ids,
        "log_probs": call.log_probs,
        "policy_id": call.policy_id,
        "finish_reason": call.finish_reason,
        "start_time": call.start_time.isoformat(),
        "end_time": call.end_time.isoformat(),
    }


def _failed(one: Failed) -> dict[str, Any]:
    times = {"start_time": one.start_time.isoformat(), "end_time": one.end_time.isoformat()}
    return {"role": one.question.role, "reason": one.reason, "is_fault": one.is_fault, **times}
