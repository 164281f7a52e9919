"""Messages of the APIs whose conversations are no rows of chat messages, as the chat messages that templates take."""

from collections.abc import Iterable
from dataclasses import replace

from ratchet_problems import Message

_BETWEEN = "\n\n"


def joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    """With neighbours of one role as one message: many templates refuse two in a row. Results of tools stay apart."""
    made: list[Message] = []
    for message in messages:
        last = made[-1] if made else None
        if last is None or message.role == "tool" or last.role != message.role:
            made.append(message)
            continue
        content = _BETWEEN.join(filter(None, (last.content, message.content)))
        made[-1] = replace(last, content=content, tool_calls=(*last.tool_calls, *message.tool_calls))
    return tuple(made)


def text_of(parts: Iterable[str]) -> str:
    """One text of several that a message holds."""
    return _BETWEEN.join(parts)
