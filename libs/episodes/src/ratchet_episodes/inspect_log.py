"""Records of episodes in the log format of inspect_ai (EvalLog, version 2), for its viewer and its readers.

A sample's messages are the last way through the episode's calls; what else is known of it is in its metadata.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from ratchet_episodes.record import Record
from ratchet_policies import FinishReason
from ratchet_problems import Message, ToolCall
from ratchet_sessions.session import Call

_SCORER = "ratchet"
_STOPS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "max_tokens", FinishReason.TOOL_CALLS: "tool_calls"}


@dataclass(frozen=True, slots=True)
class Measured:
    """Facts of the log, for all its samples."""

    id: str
    problems: str
    """Name of the set."""
    model: str
    temperature: float
    max_tokens: int
    samples_per_problem: int
    create_time: datetime
    start_time: datetime | None = None
    end_time: datetime | None = None
    status: str = "success"
    """State of the log: "started", "success", "cancelled" or "error"."""


@dataclass(frozen=True, slots=True)
class Played:
    """An episode with its verdict."""

    problem_id: str
    index: int
    passed: bool
    verdict: str
    reason: str
    record: Record | None
    """None where it is not kept any more."""


def log_of(measured: Measured, episodes: Sequence[Played]) -> dict[str, Any]:
    """As JSON; the file's name ends in .json."""
    ids = sorted({one.problem_id for one in episodes})
    passes = [_value(one) for one in episodes]
    accuracy = {"name": "mean", "value": fmean(passes)} if passes else None
    scores = [{"name": _SCORER, "scorer": _SCORER, "metrics": {"mean": accuracy}}] if accuracy else []
    start, end = measured.start_time or measured.create_time, measured.end_time
    return {
        "version": 2,
        "status": measured.status,
        "eval": {
            "eval_id": measured.id,
            "run_id": measured.id,
            "task_id": measured.id,
            "created": measured.create_time.isoformat(),
            "task": measured.problems,
            "dataset": {"name": measured.problems, "samples": len(ids), "sample_ids": ids},
            "model": measured.model,
            "model_generate_config": {"temperature": measured.temperature, "max_tokens": measured.max_tokens},
            "config": {"epochs": measured.samples_per_problem},
        },
        "results": {"total_samples": len(episodes), "completed_samples": len(episodes), "scores": scores},
        "stats": {"started_at": start.isoformat(), "completed_at": end.isoformat() if end else ""},
        "samples": [_sample(one, measured.model) for one in episodes],
    }


def _value(one: Played) -> float:
    """The judge's reward, where it gave one."""
    reward = one.record.verdict.reward if one.record and one.record.verdict else None
    return float(one.passed) if reward is None else reward


def _sample(one: Played, model: str) -> dict[str, Any]:
    calls = one.record.session.calls if one.record else []
    messages = [*map(_message, calls[-1].question.messages), _message(calls[-1].answer, model)] if calls else []
    return {
        "id": one.problem_id,
        "epoch": one.index + 1,
        "input": _input(calls),
        "target": "",
        "messages": messages,
        "output": _output(calls, model),
        "scores": {_SCORER: _score(one)},
        "metadata": _metadata(one.record) if one.record else {},
        "model_usage": {model: _usage(calls)},
        "turn_count": len(calls),
        **({"total_time": one.record.ended.wall_seconds} if one.record else {}),
    }


def _input(calls: Sequence[Call]) -> str:
    """The first message of a user: the task as the program put it."""
    messages = calls[0].question.messages if calls else ()
    return next((message.content for message in messages if message.role == "user"), "")


def _score(one: Played) -> dict[str, Any]:
    judged = one.record.verdict if one.record else None
    about = {"verdict": one.verdict, **({"forgeable": judged.forgeable, "output": judged.output} if judged else {})}
    return {"value": _value(one), "explanation": one.reason, "metadata": about}


def _metadata(record: Record) -> dict[str, Any]:
    return {
        "task": record.task,
        "ended": asdict(record.ended),
        "changes": [asdict(change) for change in record.changes],
        "policy_ids": sorted({call.policy_id for call in record.session.calls}),
        "branches": {str(index): asdict(branch) for index, branch in record.session.branches.items()},
        "failed_calls": [one.reason for one in record.session.failed],
        "left_out": list(record.left_out),
    }


def _message(message: Message, model: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "assistant" and message.tool_calls:
        found["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.role == "tool":
        found["tool_call_id"] = message.tool_call_id
    return found | ({"model": model} if model else {})


def _tool_call(call: ToolCall) -> dict[str, Any]:
    found = {"id": call.id, "function": call.name, "type": "function"}
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return {**found, "arguments": {}, "parse_error": f"{error}: {call.arguments}"}
    if not isinstance(arguments, Mapping):
        return {**found, "arguments": {}, "parse_error": f"no object: {call.arguments}"}
    return {**found, "arguments": arguments}


def _output(calls: Sequence[Call], model: str) -> dict[str, Any]:
    if not calls:
        return {"model": model, "choices": []}
    choice = {
        "message": _message(calls[-1].answer, model),
        "stop_reason": _STOPS.get(calls[-1].finish_reason, "unknown"),
    }
    return {"model": model, "choices": [choice], "usage": _usage(calls)}


def _usage(calls: Sequence[Call]) -> dict[str, int]:
    read, made = sum(len(call.prompt_ids) for call in calls), sum(len(call.token_ids) for call in calls)
    return {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}
