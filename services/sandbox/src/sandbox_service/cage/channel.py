"""Between a program and its tests, in two processes: a line of JSON asks, lines answer or ask back."""

import json
import socket

LINE_LIMIT = 16 << 20

_BINARY = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split()
COMPARISONS = tuple(f"__{name}__" for name in "eq ne lt le gt ge".split())
ARITHMETIC = tuple(f"__{start}{name}__" for start in ("", "r", "i") for name in _BINARY if start != "i" or name != "divmod")
# What gives a value of Python's own, whoever is asked.
CONVERSIONS = tuple(f"__{name}__" for name in "int float complex index round trunc floor ceil str repr format bytes".split())
CONTAINER = tuple(f"__{name}__" for name in "iter next len getitem setitem delitem contains reversed bool hash".split())
OTHER = tuple(f"__{name}__" for name in "call neg pos abs invert enter exit".split())
SPECIALS = (*COMPARISONS, *ARITHMETIC, *CONVERSIONS, *CONTAINER, *OTHER)


def specials(kind: type) -> list[str]:
    """The special methods that a type has, beyond those that every object has."""
    return [
        name
        for name in SPECIALS
        if (method := getattr(kind, name, None)) is not None and method is not getattr(object, name, None)
    ]


def send(channel: socket.socket, message: dict[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        what = f"{len(line)} bytes, and at most {LINE_LIMIT} cross between the program and its tests"
        line = json.dumps({"raised": {"kinds": ["OverflowError"], "message": what}}).encode() + b"\n"
    channel.sendall(line)
