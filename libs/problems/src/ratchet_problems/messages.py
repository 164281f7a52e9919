"""A chat: how a problem is put to a policy, and how the two go on."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of an assistant. In a stream, the new part of a call: its id and its name come with its first piece."""

    name: str
    arguments: str = ""
    """A JSON object, as the model wrote it."""
    id: str = ""
    index: int = 0
    """From 0, among the calls of one answer."""


@dataclass(frozen=True, slots=True)
class Message:
    """`role`: "system", "user", "assistant" or "tool"."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of an assistant."""
    tool_call_id: str = ""
    """The call that this message, a tool's, answers."""


MOST_SYSTEM = 32_768
"""Characters of a message of the system that is one for all."""
MOST_TEMPLATE = 262_144
"""Characters of a chat template."""


def under(system: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with one of the system first, unless they have one. An empty one changes nothing."""
    return (Message("system", system), *messages) if system and not has_system(messages) else messages


def parted(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages of the system at the beginning, and the rest."""
    count = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    return messages[:count], messages[count:]


def has_system(messages: Iterable[Message]) -> bool:
    return any(message.role == "system" for message in messages)


def records(messages: Iterable[Message]) -> list[dict[str, str]]:
    """As OpenAI's API, chat templates and JSONL have them, without calls of tools."""
    return [{"role": message.role, "content": message.content} for message in messages]
