"""Chats and the tools in them, as chat templates take them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ratchet_policies import Tools
from ratchet_problems import Message

NO_PARAMETERS = '{"type": "object", "properties": {}}'


def conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """As chat templates take it (https://huggingface.co/docs/transformers/chat_extras): arguments are objects."""
    return [as_record(message, _object) for message in messages]


def offered(tools: Tools) -> list[dict[str, Any]]:
    """As chat templates and OpenAI's API take them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "parameters": json.loads(tool.parameters or NO_PARAMETERS)}
            | ({"description": tool.description} if tool.description else {})
            | ({} if tool.strict is None else {"strict": tool.strict}),
        }
        for tool in tools.offered
    ]


def as_record(message: Message, arguments: Callable[[str], object]) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        record["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call.arguments)}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        record["tool_call_id"] = message.tool_call_id
    return record


def _object(text: str) -> dict[str, Any]:
    """A call that a model wrote long ago ends no conversation: where it is not a JSON object, it is an empty one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
