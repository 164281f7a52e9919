"""How tests in one process use a program in another: a line of JSON asks, a line answers.

Plain values go as copies; lists, dicts and sets that the program changed in place are changed in the tests, too. All
else stays in the program's process, and the tests hold a reference to it. What the tests do with one is done over
there, so that its answer is the program's word. Hence they may do only what a test's own comparison stands behind:

- With an object that the tests made by calling a class of the program: everything that a method can do.
- With what the program handed out by itself: call it, iterate, index, measure, read attributes. No attribute is
  called: else `assert f(1).startswith("a")` would pass for an object that says yes to all.
- Two objects of one class of the program are equal if that class says so. A plain value equals none, and arithmetic
  with one is a TypeError: the object would be told what was expected, and could agree.
"""

# ruff: noqa: BLE001 (programs may raise anything, and whatever they raise is an answer)

import builtins
import json
import operator
import socket
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import codec
import job

_LINE_LIMIT = 1 << 20
_CONSTANTS_LIMIT = 1 << 18
_PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_COMPARISONS = "lt le gt ge"
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift"
_SINGLE = "neg pos abs invert"
# What tests may get of the library because the program imports it by name: nothing that runs a text as code.
_LIBRARY = {
    "bisect", "cmath", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "math",
    "random", "re", "statistics", "string", "typing",
}  # fmt: skip


class ProgramGone(BaseException):
    """The program's process ended: not an Exception, so that no test catches it by chance."""


class Garbled(BaseException):
    """The program's process sent what its own loop never sends."""


class CannotCross(BaseException):
    """A test does with an object what it can't do from another process: no error of the program, so none to expect."""


# In the program's process.


def _call(function: Callable[..., object], *arguments: object, **keywords: object) -> object:
    return function(*arguments, **keywords)


OPERATIONS: dict[str, Callable[..., object]] = {
    "call": _call, "getattr": getattr, "setattr": setattr, "delattr": delattr, "len": len, "bool": bool, "str": str,
    "repr": repr, "iter": iter, "next": next, "getitem": operator.getitem, "setitem": operator.setitem,
    "delitem": operator.delitem, "enter": lambda it: it.__enter__(), "leave": lambda it: it.__exit__(None, None, None),
    **{name: getattr(operator, name) for name in f"eq {_COMPARISONS} {_ARITHMETIC} {_SINGLE}".split()},
}  # fmt: skip


class Lender:
    """Answers what the tests ask, one request at a time."""

    def __init__(self, channel: socket.socket, module: types.ModuleType, entry: object) -> None:
        self._channel, self._module, self._entry = channel, module, entry
        self._lent: list[object] = []
        self._places: dict[int, int] = {}

    def serve(self) -> None:
        lines = self._channel.makefile("rb")
        _send(self._channel, self._hello())
        for line in lines:
            _send(self._channel, self._answer(json.loads(line)))

    def _hello(self) -> dict:
        """What tests may want of the program: functions, classes, plain constants, what it imports of the library."""
        hello: dict[str, Any] = {"entry": self._encode(self._entry), "constants": {}, "functions": {}, "classes": [],
                                 "modules": [], "library": {}}  # fmt: skip
        room = _CONSTANTS_LIMIT
        for name, item in list(self._module.__dict__.items()):
            if name.startswith("__"):
                continue
            if isinstance(item, types.ModuleType):
                if item.__name__ == name:
                    hello["modules"].append(name)
            elif isinstance(item, _PLAIN):
                form = self._encode(item)
                room -= len(json.dumps(form))
                hello["constants"][name] = form if room > 0 else {"r": self._lend(item)}
            elif isinstance(item, type) and item.__module__ == self._module.__name__:
                hello["classes"].append([name, self._encode(item), job.kinds(item)])
            elif callable(item):
                home = getattr(item, "__module__", None)
                if isinstance(home, str) and home in _LIBRARY and getattr(sys.modules.get(home), name, None) is item:
                    hello["library"][name] = home
                else:
                    hello["functions"][name] = self._encode(item)
        return hello

    def _answer(self, request: dict) -> dict:
        arguments = self._decode(request["arguments"])
        keywords = self._decode(request["keywords"])
        forms = request["arguments"]
        own = [i for i, form in enumerate(forms) if not (isinstance(form, dict) and "r" in form)]  # copies of theirs
        before = json.dumps([forms[i] for i in own])
        try:
            answer: dict = {"value": self._encode(OPERATIONS[request["do"]](*arguments, **keywords))}
        except BaseException as error:
            job.relieve(error)
            answer = {"raised": [*job.describe(error), job.kinds(type(error))]}
        after = {i: self._encode(arguments[i]) for i in own}
        if json.dumps(list(after.values())) != before:
            answer["arguments"] = [after.get(i) for i in range(len(forms))]
        job.flush()
        return answer

    def _encode(self, value: object) -> object:
        return codec.encode(value, self._lend)

    def _decode(self, data: object) -> Any:
        return codec.decode(data, self._found)

    def _lend(self, value: object) -> object:
        """Its number, and the names of its classes."""
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self._lent)
            self._lent.append(value)  # and so its id stays its own
        return [place, job.kinds(type(value))]

    def _found(self, form: Any) -> object:
        return getattr(builtins, form) if isinstance(form, str) else self._lent[form]


def _send(channel: socket.socket, message: dict) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > _LINE_LIMIT:
        what = f"{len(line)} bytes, and at most {_LINE_LIMIT} cross between the program and its tests"
        line = json.dumps({"raised": ["OverflowError", what, ["OverflowError"]]}).encode() + b"\n"
    channel.sendall(line)


# In the tester's process.


class Borrower:
    """The program, as far as a test can see it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")
        self._classes: dict[str, type] = {}
        self._exceptions: dict[str, type[BaseException]] = {}
        self._held: dict[int, object] = {}
        self.entry: object = None

    def names(self, entry_point: str) -> dict[str, object]:
        """The program's functions and classes, its plain constants as copies, what it imports of the library.

        No builtin but the entry point: a program that defines its own `abs` must not lend it to the tests. Nor a name
        that means something to Python: with `__builtins__` it would lend them all.
        """
        try:
            names = self._names(self._receive(), entry_point)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
            raise Garbled from None
        return {name: item for name, item in names.items() if name == entry_point or _is_free(name)}

    def _names(self, hello: dict, entry_point: str) -> dict[str, object]:
        names: dict[str, object] = {}
        for name in hello["modules"]:
            if name in sys.stdlib_module_names:
                names[name] = __import__(name)
        for name, home in hello["library"].items():
            if home in _LIBRARY:
                names[name] = getattr(__import__(home), name)
        for name, form, kinds in hello["classes"]:
            names[name] = self._class(form["r"][0], [str(kind) for kind in kinds])
        for name, item in [*hello["constants"].items(), *hello["functions"].items()]:
            names[name] = self._decode(item)
        self.entry = self._decode(hello["entry"])
        names[entry_point] = self.entry
        return names

    def _class(self, place: int, kinds: list[str]) -> type:
        """A class of the program, or a real exception class in the place of an exception's."""
        name, *bases = kinds
        if "BaseException" in bases:
            base = next((self._exceptions[kind] for kind in bases if kind in self._exceptions), None)
            self._exceptions[name] = self._held[place] = exception = type(name, (base or _builtin_error(bases),), {})
            return exception
        parents = [self._classes[base] for base in bases if base in self._classes][:1]
        made = _Class(name, tuple(parents) or (Reference,), {"_borrower": self, "_place": place})
        self._classes[name] = made
        self._held[place] = made
        return made

    def ask(self, do: str, *arguments: object, **keywords: object) -> Any:
        sent = {"do": do, "arguments": self._encode(list(arguments)), "keywords": self._encode(keywords)}
        try:
            _send(self._channel, sent)
        except OSError:
            raise ProgramGone from None
        answer = self._receive()
        if "arguments" in answer:
            for mine, theirs in zip(arguments, self._checked(answer["arguments"]), strict=False):
                _update(mine, theirs)
        if "raised" in answer:
            raise self._rebuild_error(answer["raised"])
        if "value" not in answer:
            raise Garbled
        return self._checked(answer["value"])

    def make(self, made: type, *arguments: object, **keywords: object) -> object:
        """An object of a class of the program, made by the tests: they may call its methods."""
        it = self.ask("call", made, *arguments, **keywords)
        if isinstance(it, Reference):
            it.__dict__["_trusted"] = True
        return it

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

    def _encode(self, value: object) -> object:
        return codec.encode(value, self._name)

    @staticmethod
    def _name(value: object) -> object:
        """How the program's process finds it."""
        if isinstance(value, Reference | _Class):
            return value._place
        name = getattr(value, "__name__", "")
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return name
        raise CannotCross(f"a test passes a {type(value).__name__}, and only plain values cross to the program")

    def _decode(self, data: object) -> Any:
        return codec.decode(data, self._hold)

    def _checked(self, data: object) -> Any:
        try:
            return self._decode(data)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
            raise Garbled from None

    def _hold(self, form: Any) -> object:
        place, kinds = form
        if place not in self._held:
            made = next((self._classes[kind] for kind in kinds if kind in self._classes), Reference)
            self._held[place] = self.refer(made, int(place))
        return self._held[place]

    def refer(self, made: type, place: int, **more: bool) -> "Reference":
        it = object.__new__(made)
        it.__dict__.update(_borrower=self, _place=place, **more)
        return it  # type: ignore[return-value]

    def _rebuild_error(self, raised: object) -> BaseException:
        """The program's exception class, the builtin one of that name, or a new class of it."""
        match raised:
            case [str(name), str(message), [*kinds]]:
                kind = self._exceptions.get(name)
            case _:
                return Garbled()
        if kind is None:
            kind = getattr(builtins, name, None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = type(name, (_builtin_error(kinds),), {})
        try:
            error = kind(message)
        except Exception:
            error = type(name, (kind,), {"__init__": lambda self: None, "__str__": lambda self: message})()
        error.from_program = True  # type: ignore[attr-defined]
        return error


def _is_free(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__") and not hasattr(builtins, name)


def _builtin_error(kinds: list) -> type[Exception]:
    found = [getattr(builtins, kind, None) for kind in kinds if isinstance(kind, str)]
    return next((kind for kind in found if isinstance(kind, type) and issubclass(kind, Exception)), Exception)


def _update(mine: object, theirs: object) -> None:
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list):
        mine[:] = theirs  # type: ignore[call-overload]
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)  # type: ignore[call-overload]


class _Class(type):
    """What a class of the program is to the tests: calling it makes an object over there."""

    _borrower: Borrower
    _place: int

    def __call__(cls, *arguments: object, **keywords: object) -> Any:
        return cls._borrower.make(cls, *arguments, **keywords)

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__") or name in ("_borrower", "_place"):
            raise AttributeError(name)
        return cls._borrower.ask("getattr", cls, name)


class Reference(metaclass=_Class):
    """What stays in the program's process. See the rules above."""

    _trusted = False
    _is_attribute = False

    def __call__(self, *arguments: object, **keywords: object) -> object:
        if self._is_attribute:
            raise CannotCross("a test calls a method of an object that the program made, whose word alone would count")
        return self._borrower.ask("call", self, *arguments, **keywords)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        item = self._borrower.ask("getattr", self, name)
        if isinstance(item, Reference) and not self._trusted:
            return self._borrower.refer(type(item), item._place, _is_attribute=True)
        return item

    def __setattr__(self, name: str, value: object) -> None:
        self._borrower.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._borrower.ask("delattr", self, name)

    def __iter__(self) -> Iterator[object]:
        items = self._borrower.ask("iter", self)
        while True:
            try:
                item = self._borrower.ask("next", items)
            except StopIteration:
                return
            yield item

    def __next__(self) -> object:
        return self._borrower.ask("next", self)

    def __len__(self) -> int:
        return self._borrower.ask("len", self)  # type: ignore[no-any-return]

    def __getitem__(self, key: object) -> object:
        return self._borrower.ask("getitem", self, key)

    def __setitem__(self, key: object, value: object) -> None:
        self._borrower.ask("setitem", self, key, value)

    def __delitem__(self, key: object) -> None:
        self._borrower.ask("delitem", self, key)

    def __bool__(self) -> bool:
        return self._borrower.ask("bool", self)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._borrower.ask("str", self)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self._borrower.ask("repr", self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return False
        if self._place == other._place:
            return True
        return type(self) is type(other) is not Reference and bool(self._borrower.ask("eq", self, other))

    def __hash__(self) -> int:
        return self._place

    def __enter__(self) -> object:
        return self._borrower.ask("enter", self)

    def __exit__(self, *_: object) -> None:
        self._borrower.ask("leave", self)


def _binary(name: str, special: str) -> None:
    def method(self: Reference, other: object) -> object:
        if isinstance(other, Reference):
            return self._borrower.ask(name, self, other)
        return NotImplemented

    setattr(Reference, special, method)


def _unary(name: str, special: str) -> None:
    setattr(Reference, special, lambda self: self._borrower.ask(name, self))


for _name in f"{_COMPARISONS} {_ARITHMETIC}".split():
    _binary(_name, f"__{_name.strip('_')}__")
for _name in _SINGLE.split():
    _unary(_name, f"__{_name}__")
