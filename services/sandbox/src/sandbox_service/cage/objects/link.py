"""What both sides of a check test have in common: they ask each other, and hold objects in common.

A request is `{"do": ...}`, its answer anything else. While one side waits for an answer, the other may ask back: tests
hand functions over, and the program calls them. Each message first says what changed of the objects held in common
(shared.py), and which of them nobody holds there any more.

Beside codec.py's tags for values, forms hold what only one side has:

    n  an object held in common, new: number, contents      m  one that has a number
    g  a function or type of the library: module, name      x  an exception
    r, k, v, p  objects, classes, enum members and properties of the program: owner.py
    q, e  objects and exception classes of the tests: lent.py
"""

import _socket
import _thread
import builtins
import sys
from typing import Any

from sandbox_service.cage.objects import details, shared
from sandbox_service.cage.run import runner
from sandbox_service.cage.wire import arrays, channel, codec, library


class Link:
    """One side of the connection."""

    def __init__(self, connection: _socket.socket, step: int, room: int | None = None) -> None:
        self._connection = connection
        self._lines = open(connection.fileno(), "rb", closefd=False)  # noqa: SIM115 (it lives as long as the link)
        self._lock = _thread.RLock()
        self._shared = shared.Shared(step, room)
        self._sharing = step > 0
        self._noted: list[Any] = []

    # --- messages

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer. Answers what the other side asks meanwhile."""
        with self._lock:
            self._send(message)
            while True:
                answer = self._receive()
                if "do" not in answer:
                    return answer
                self._send(self._answer(answer))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _send(self, message: dict[str, Any]) -> None:
        changed = [*self._noted, *self._changes()]
        self._noted = []
        if changed:
            message["changed"] = changed
        dropped = self._shared.idle()
        if dropped:
            message["dropped"] = dropped
        with _DEEPER:
            channel.send(self._connection, message)

    def _note_changes(self) -> None:
        """Before a message's values are put in their forms: the other side reads what has changed first, so nothing
        that changed may hold an object that is new in a value."""
        self._noted += self._changes()

    def _changes(self) -> list[Any]:
        sharing, self._sharing = self._sharing, True
        try:
            with _DEEPER:
                return [[number, self._contents(value, _TOP)] for number, value in self._shared.changed()]
        finally:
            self._sharing = sharing

    def _receive(self) -> dict[str, Any]:
        """Raises EOFError when the other side hung up, ValueError for what is no message."""
        line = self._lines.readline(channel.LINE_LIMIT + 1)
        if not line:
            raise EOFError
        with _DEEPER:
            message = codec.parse(line)
            if not isinstance(message, dict):
                raise ValueError("no message")
            for number, form in message.get("changed", ()):
                shared.fill(self._shared[number], form, self._decode)
                self._shared.seen(number)
        return message

    def _forget(self, message: dict[str, Any]) -> None:
        """Once its values are decoded."""
        self._shared.drop(message.get("dropped", []))

    def _pack(self, do: str, arguments: Any, keywords: Any) -> dict[str, Any]:
        """A request. No list or dict of ours is among the values."""
        self._note_changes()
        named = {name: self._encode(item) for name, item in keywords.items()}
        return {"do": do, "arguments": [self._encode(item) for item in arguments], "keywords": named}

    def _unpack(self, request: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        named = {str(name): self._decode(item) for name, item in request["keywords"].items()}
        return [self._decode(item) for item in request["arguments"]], named

    # --- values

    def _encode(self, value: object) -> Any:
        with _DEEPER:
            return codec.encode(value, self._rare, self._held, _TOP)

    def _held(self, value: Any, depth: int) -> Any:
        number = self._shared.number(value)
        if number is not None:
            return {"m": number}
        if not self._sharing or self._shared.is_full():
            return None
        number = self._shared.give_number(value)
        form = self._contents(value, depth)
        self._shared.seen(number)
        return {"n": [number, form]}

    def _contents(self, value: Any, depth: int) -> Any:
        below = depth + 1
        kind = type(value)
        if kind is list:
            if codec.stand_for_themselves(value):
                return value[:]
            return [codec.encode(item, self._rare, self._held, below) for item in value]
        if kind is set:
            return {"s": [codec.encode(item, self._rare, self._held, below) for item in value]}
        if kind is dict:
            code = codec.encode
            held, rare = self._held, self._rare
            return {"d": [[code(key, rare, held, below), code(item, rare, held, below)] for key, item in value.items()]}
        return self._library(value, depth)

    def _library(self, value: Any, depth: int) -> Any:
        def below(part: object) -> object:
            return codec.encode(part, self._rare, self._held, depth + 1)

        return arrays.form(value, below) if arrays.is_of_numpy(value) else library.form(value, below)

    def _rare(self, value: Any, depth: int) -> Any:
        own = self._own(value)
        if own is not None:
            return own
        if shared.is_mutable(value):
            held = self._held(value, depth)
            return self._contents(value, depth) if held is None else held
        form = self._library(value, depth)
        if form is not None:
            return form
        if issubclass(type(value), BaseException):
            return {"x": self._raised(value)}
        if issubclass(type(value), PLAIN) and type(value) not in _SINGLE:
            return None  # as its base
        return self._lend(value)

    def _own(self, value: Any) -> Any:
        """The form of what this side lent before or has from the other, and of names; None for anything else."""
        raise NotImplementedError

    def _lend(self, value: Any) -> Any:
        """The form of an object that stays here."""
        raise NotImplementedError

    def _decode(self, data: object) -> Any:
        with _DEEPER:
            return codec.decode(data, self._rebuild, _TOP - _DEEPEST)  # a level of a value may be two of its form

    def _rebuild(self, tag: str, body: Any, depth: int) -> Any:
        def below(part: object) -> Any:
            return codec.decode(part, self._rebuild, depth + 1)

        if tag == "l":
            return build(body[0], [below(part) for part in body[1:]])
        if tag == "m":
            return self._found(body)
        if tag == "n":
            number, form = body
            made = shared.make(form, lambda made: self._shared.take(number, made), below)
            self._shared.seen(number)
            return made
        return self._theirs(tag, body)

    def _found(self, number: int) -> Any:
        return self._shared[number]

    def _theirs(self, tag: str, body: Any) -> Any:
        """What the other side lends. Raises ValueError for an unknown tag."""
        raise NotImplementedError

    # --- exceptions

    def _raised(self, error: BaseException) -> dict[str, Any]:
        runner.relieve(error)
        form: dict[str, Any] = {"kinds": kinds(type(error)), "message": runner.describe(error)[1]}
        arguments = error.args
        if issubclass(type(error), BaseExceptionGroup):
            group: Any = error
            form["group"] = [str(group.message), [self._raised(one) for one in group.exceptions]]
        elif type(error) is StopIteration:  # what a generator returns
            form["args"] = self._encode(tuple(arguments))
        elif details.is_plain(arguments):
            form["args"] = codec.encode(arguments)
        if held := details.of(error):
            form["held"] = held
        return form


class _Deeper:
    """Within it Python's limit on recursion leaves room for values nested as deeply as may cross. Programs that
    ask for 2**31 - 1, as some do, have all the room there is."""

    def __enter__(self) -> None:
        if _get() < _PLENTY:
            _change(_get() + _ROOM)

    def __exit__(self, *_: object) -> None:
        if _get() < _PLENTY + _ROOM:
            _change(_get() - _ROOM)


_get, _change = sys.getrecursionlimit, sys.setrecursionlimit
_DEEPER = _Deeper()
_DEEPEST = 1000
_TOP = codec.MAX_DEPTH - _DEEPEST  # codec.py counts from there
_PLENTY = 1 << 30
_ROOM = 8 * _DEEPEST  # a list that both sides hold takes seven calls at each level

PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_SINGLE = (bool, type(None))


def build(name: str, parts: list[Any]) -> Any:
    """A value of the library or of numpy. Raises whatever wrong parts make a constructor raise."""
    return arrays.build(name, parts) if name.startswith("numpy.") else library.build(name, parts)


def name_of(value: Any) -> list[str] | None:
    """Module and name by which the library's functions and types are found again; None for anything else."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    home = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", "numpy")
    if not (isinstance(name, str) and isinstance(home, str)):
        return None
    if isinstance(value, type) and home == "builtins" and not hasattr(builtins, name):
        home = "types"  # NoneType and its like
    if home.partition(".")[0].lstrip("_") not in _LIBRARY:
        return None
    return [home, name] if _at(sys.modules.get(home), name) is value else None


_LIBRARY = {"numpy", *(name.lstrip("_") for name in sys.stdlib_module_names)} - {"thread"}


def kinds(kind: type) -> list[str]:
    """As runner.kinds; an exception of the library is told by its module, too: `json.decoder:JSONDecodeError`."""
    found = runner.kinds(kind)
    for i, one in enumerate(kind.__mro__[: len(found)]):
        if issubclass(one, BaseException) and one.__module__ != "builtins" and (name := name_of(one)):
            found[i] = ":".join(name)
    return found


def find(module: str, name: str) -> Any:
    """The object of that name, or None."""
    return _at(__import__(module, None, None, ["*"]), name)


def loaded(module: str, name: str) -> Any:
    """The object of the library of that name, or None where its module is not loaded."""
    return _at(sys.modules.get(module), name) if module.partition(".")[0].lstrip("_") in _LIBRARY else None


def _at(found: Any, name: str) -> Any:
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
