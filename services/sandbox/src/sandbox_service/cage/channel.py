"""Between a program and its tests, in two processes: a line of JSON asks, a line answers."""

import json
import socket

LINE_LIMIT = 1 << 20
COMPARISONS = ("lt", "le", "gt", "ge")
ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
)
SINGLE = ("neg", "pos", "abs", "invert")
# What tests may get of the library because the program imports it by name: nothing that runs a text as code.
LIBRARY = {
    "bisect", "cmath", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "math",
    "random", "re", "statistics", "string", "typing",
}  # fmt: skip


def send(channel: socket.socket, message: dict[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        what = f"{len(line)} bytes, and at most {LINE_LIMIT} cross between the program and its tests"
        line = json.dumps({"raised": ["OverflowError", what, ["OverflowError"]]}).encode() + b"\n"
    channel.sendall(line)
