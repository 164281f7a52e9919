"""The pasts of calls as a tree of messages: one walk down it finds those that begin as a question does.

A past is a call's messages with its answer. A program is not trusted, and may call thousands of times with thousands of
messages: a question takes as long as it is itself, however many calls came before it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json

from ratchet_policies import Tool
from ratchet_problems import Message, ToolCall

_Key = tuple[object, ...]


@dataclass(slots=True, eq=False)  # mutable: it grows with each call
class Node:
    """A message, and those that come before it."""

    message: Message | None = None
    """As it was first said; None for the root."""
    after: dict[_Key, "Node"] = field(default_factory=dict, repr=False)
    newest: int = -1
    """The newest call whose past begins like this."""
    ends: dict[tuple[Tool, ...], int] = field(default_factory=dict)
    """The newest call whose past is this, by the tools that it was offered."""

    def others(self, onward: "Node | None") -> int:
        """The newest call that goes elsewhere than `onward` from here; -1 for none."""
        return max((one.newest for one in self.after.values() if one is not onward), default=-1)


def walk(root: Node, messages: Iterable[Message]) -> list[Node]:
    """The root and the nodes of the messages, as far as they are known."""
    found = [root]
    for message in messages:
        following = found[-1].after.get(_key(message))
        if following is None:
            break
        found.append(following)
    return found


def add(known: Sequence[Node], past: Sequence[Message], offered: tuple[Tool, ...], call: int) -> None:
    """The newest call's. `known`: of its messages, from the root on; each message stands in the tree once."""
    nodes = list(known)
    for message in past[len(known) - 1 :]:
        nodes.append(nodes[-1].after.setdefault(_key(message), Node(message)))
    for node in nodes:
        node.newest = call
    nodes[-1].ends[offered] = call


def _key(message: Message) -> _Key:
    """Equal for messages that are the same to a model."""
    return message.role, message.content, message.tool_call_id, *map(_call, message.tool_calls)


def _call(call: ToolCall) -> tuple[str, str, str]:
    """Programs read the arguments and write them again: the spaces between them, and their order, say nothing; nor does
    the way a number is written, of which JavaScript knows one kind. What is cut off ends there, as for Anthropic's
    clients; what is no object is an empty one, as for templates."""
    try:
        read = _read(call.arguments)
        arguments = json.dumps(read if isinstance(read, dict) else {}, sort_keys=True)
    except (ValueError, RecursionError):
        arguments = "{}"
    return call.id, call.name, arguments


def _read(arguments: str) -> object:
    """Raises ValueError, RecursionError."""
    try:
        return json.loads(arguments, parse_int=float)
    except ValueError:
        return json.loads(json.dumps(from_json(arguments, allow_partial=True)), parse_int=float)
