"""Opaque test code in two processes: one holds the program, the other the tests. By value they meet, in no other way.

The tests see each function of the program as a proxy. A call sends the arguments, JSON a line, and gets a value or an
exception back; lists, dicts and sets that the program changed in place are changed in the tests, too. The tester alone
says how the tests ended, on a pipe that the program's process never had.
"""

# ruff: noqa: BLE001 (programs and tests may raise anything, and whatever they raise is an answer)

import builtins
import json
import socket
import sys
import types
from collections.abc import Callable

import codec
import job

_LINE_LIMIT = 1 << 20
_PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set)


class ProgramGone(BaseException):
    """The program's process ended: not an Exception, so that no test catches it by chance."""


class Garbled(BaseException):
    """The program's process sent what its own loop never sends."""


class CannotCross(TypeError):
    """A test handed the program something that isn't a plain value."""


def serve_program(payload: dict, frames: job.Frames) -> int:
    """In the program's process: answers calls until the tester hangs up."""
    code = job.compile_program(payload["source"], frames)
    if code is None:
        return 1
    try:
        module = job.load(code, "program")
        job.find(module, payload["entry_point"])
    except BaseException as error:
        job.report(error, frames)
        return 1
    frames.send("loaded")
    channel = socket.socket(fileno=job.CHANNEL_FD)
    lines = channel.makefile("rb")
    _send(channel, _hello(module))
    for line in lines:
        _send(channel, _answer(module, json.loads(line)))
    job.flush()
    return 0


def _hello(module: types.ModuleType) -> dict:
    """What tests may want of the program beside its entry point: functions, plain constants, the modules it imports."""
    items = [(name, item) for name, item in module.__dict__.items() if not name.startswith("__")]
    return {
        "functions": [name for name, item in items if callable(item)],
        "constants": {name: codec.encode(item) for name, item in items if isinstance(item, _PLAIN)},
        "modules": [name for name, item in items if isinstance(item, types.ModuleType) and item.__name__ == name],
    }


def _answer(module: types.ModuleType, request: dict) -> dict:
    arguments = codec.decode(request["arguments"])
    keywords = codec.decode(request["keywords"])
    before = json.dumps(request["arguments"])
    try:
        answer: dict = {"value": codec.encode(module.__dict__[request["function"]](*arguments, **keywords))}
    except BaseException as error:
        answer = {"raised": job.describe(error)}
    after = codec.encode(arguments)
    if json.dumps(after) != before:
        answer["arguments"] = after
    job.flush()
    return answer


def _send(channel: socket.socket, message: dict) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > _LINE_LIMIT:
        what = f"{len(line)} bytes, and at most {_LINE_LIMIT} cross between the program and its tests"
        line = json.dumps({"raised": ["OverflowError", what]}).encode() + b"\n"
    channel.sendall(line)


class Program:
    """In the tester's process: the program, as far as a test can see it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")

    def _receive(self) -> dict:
        line = self._lines.readline(_LINE_LIMIT + 1)
        if not line:
            raise ProgramGone
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise Garbled
        return message

    def names(self, entry_point: str) -> dict[str, object]:
        """The program's functions as proxies, its plain constants as copies, and the modules of the library it imports.

        No builtin but the entry point: a program that defines its own `abs` must not lend it to the tests.
        """
        hello = self._receive()
        names: dict[str, object] = {}
        for name in hello.get("modules", ()):
            if name in sys.stdlib_module_names:
                names[name] = __import__(name)
        for name, item in hello.get("constants", {}).items():
            names[name] = _guard(codec.decode, item)
        for name in hello.get("functions", ()):
            names[name] = self._proxy(name)
        return {name: item for name, item in names.items() if name == entry_point or not hasattr(builtins, name)}

    def _proxy(self, name: str) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            sent = {"function": name, "arguments": _cross(list(arguments)), "keywords": _cross(keywords)}
            try:
                _send(self._channel, sent)
            except OSError:
                raise ProgramGone from None
            answer = self._receive()
            if "arguments" in answer:
                for mine, theirs in zip(arguments, _guard(codec.decode, answer["arguments"]), strict=False):
                    _update(mine, theirs)
            if "raised" in answer:
                raise _rebuild(answer["raised"])
            if "value" not in answer:
                raise Garbled
            return _guard(codec.decode, answer["value"])

        call.__name__ = call.__qualname__ = name
        return call


def _guard(decode: Callable[[object], object], data: object) -> object:
    try:
        return decode(data)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
        raise Garbled from None


def _cross(value: object) -> object:
    encoded = codec.encode(value)
    if '{"o":' in json.dumps(encoded):
        _refuse_opaque(encoded)
    return encoded


def _refuse_opaque(encoded: object) -> None:
    if isinstance(encoded, list):
        for item in encoded:
            _refuse_opaque(item)
    elif isinstance(encoded, dict):
        if "o" in encoded:
            raise CannotCross(f"a test passes a {encoded['o'][0]}, and only plain values cross to the program")
        for item in encoded.values():
            _refuse_opaque(item)


def _update(mine: object, theirs: object) -> None:
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        mine[:] = theirs  # type: ignore[call-overload]
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)  # type: ignore[call-overload]


def _rebuild(raised: object) -> BaseException:
    """The builtin exception of that name, or a new class of it: a test may expect `ValueError`, or any Exception."""
    if not (isinstance(raised, list) and len(raised) == 2 and all(isinstance(part, str) for part in raised)):
        return Garbled()
    name, message = raised
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(name, (Exception,), {})
    try:
        error = kind(message)
    except Exception:
        error = type(name, (kind,), {"__init__": lambda self: None, "__str__": lambda self: message})()
    error.from_program = True
    return error


def run_tests(tests: dict, frames: job.Frames) -> int:
    """In the tester's process. Frames: passed | failed, raised or broken, with type and message | gone | garbled."""
    try:
        program = Program(socket.socket(fileno=job.CHANNEL_FD))
        names = program.names(tests["entry_point"])
        entry = names.get(tests["entry_point"])
        namespace = {"__name__": "tests", **names, "candidate": entry}
        exec(compile(tests["code"], "tests.py", "exec", dont_inherit=True), namespace)
        check = namespace.get("check")
        if tests["call_check"] and isinstance(check, types.FunctionType) and check is not names.get("check"):
            check(entry)
    except ProgramGone:
        frames.send("gone")
    except Garbled:
        frames.send("garbled")
    except AssertionError as error:
        frames.send("raised" if hasattr(error, "from_program") else "failed", *job.describe(error))
    except BaseException as error:
        frames.send("raised" if hasattr(error, "from_program") else "broken", *job.describe(error))
    else:
        frames.send("passed")
    return 0
