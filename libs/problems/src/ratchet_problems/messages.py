"""A chat: how a problem is put to a policy, and how the two go on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """`role`: "system", "user" or "assistant"."""

    role: str
    content: str
