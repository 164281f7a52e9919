"""Between a program and its tests, in two processes: a line of JSON asks, lines answer or ask back."""

import _socket
import json

LINE_LIMIT = 16 << 20


def _special(names: str) -> tuple[str, ...]:
    return tuple([f"__{name}__" for name in names.split()])


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
COMPARISONS = _special("eq ne lt le gt ge")
ARITHMETIC = _special(
    " ".join([f"{name} r{name} i{name}" for name in _BINARY.split()]) + " divmod rdivmod neg pos abs invert"
)
# What gives a value of Python's own, whoever is asked.
CONVERSIONS = _special("int float complex index round trunc floor ceil str repr format bytes")
CONTAINER = _special("iter next len getitem setitem delitem contains reversed bool hash")
ASYNC = _special("aenter aexit aiter anext await")
DESCRIPTORS = _special("get set delete set_name")
SPECIALS = (*COMPARISONS, *ARITHMETIC, *CONVERSIONS, *CONTAINER, *_special("call enter exit"), *ASYNC)


def specials(kind: type) -> list[str]:
    """The special methods that a type has, beyond those that every object has."""
    return [
        name
        for name in SPECIALS
        if (method := getattr(kind, name, None)) is not None and method is not getattr(object, name, None)
    ]


def send(channel: _socket.socket, message: dict[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        what = f"{len(line)} bytes, and at most {LINE_LIMIT} cross between the program and its tests"
        line = json.dumps({"raised": {"kinds": ["OverflowError"], "message": what}}).encode() + b"\n"
    channel.sendall(line)
