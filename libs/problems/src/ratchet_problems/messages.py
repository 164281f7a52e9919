"""A chat: how a problem is put to a policy, and how the two go on."""

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
