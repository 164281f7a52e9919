"""How tests in one process use a program in another: by proxies of its objects. The program's side is owner.py.

Plain values go as copies; lists, dicts and sets that the program changed in place are changed in the tests, too. All
else stays in the program's process, and the tests hold a proxy of it. What the tests do with a proxy is done
over there, so that its answer is the program's word. Hence they may do only what a test's own comparison stands behind:

- With an object that the tests made by calling a class of the program: everything that a method can do.
- With what the program handed out by itself: call it, iterate, index, measure, read attributes. No attribute is
  called: else `assert f(1).startswith("a")` would pass for an object that says yes to all.
- Two objects of one class of the program are equal if that class says so. A plain value equals none, and arithmetic
  with one is a TypeError: the object would learn what was expected, and could agree.
"""

# ruff: noqa: BLE001 (programs may raise anything, and whatever they raise is an answer)

import builtins
import json
import socket
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import arrays
import channel
import codec
import library
import link

_PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


class ProgramGone(BaseException):
    """The program's process ended: not an Exception, so that no test catches it by chance."""


class Garbled(BaseException):
    """The program's process sent what its own loop never sends."""


class CannotCross(BaseException):
    """A test does with an object what it can't do from another process: no error of the program, so none to expect."""


class Program:
    """The program, as far as a test can see it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._classes: dict[str, type] = {}
        self._exceptions: dict[str, type[BaseException]] = {}
        self._held: dict[int, object] = {}
        self.entry: object = None

    def names(self, entry_point: str, wanted: Collection[str]) -> dict[str, object]:
        """The entry point, and what is wanted of the program's functions, classes and plain constants (as copies).

        Nothing else is the program's: a name that the tests count on, of a module or of a builtin, is their own.
        """
        try:
            names = self._names(self._receive(), wanted)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
            raise Garbled from None
        if entry_point.isidentifier():
            names[entry_point] = self.entry
        return names

    def _names(self, hello: dict[str, Any], wanted: Collection[str]) -> dict[str, object]:
        names: dict[str, object] = {}
        for name, form, kinds in hello["classes"]:
            names[name] = self._class(form["r"][0], [str(kind) for kind in kinds])
        for name, item in [*hello["constants"].items(), *hello["functions"].items()]:
            if name in wanted:
                names[name] = self._decode(item)
        self.entry = self._decode(hello["entry"])
        return {name: item for name, item in names.items() if name in wanted}

    def _class(self, place: int, kinds: list[str]) -> type:
        """A class of the program, or a real exception class in the place of an exception's."""
        name, *bases = kinds
        if "BaseException" in bases:
            base = next((self._exceptions[kind] for kind in bases if kind in self._exceptions), None)
            self._exceptions[name] = self._held[place] = exception = type(name, (base or _builtin_error(bases),), {})
            return exception
        parents = [self._classes[base] for base in bases if base in self._classes][:1]
        made = _ProxyClass(name, tuple(parents) or (Proxy,), {"_proxied_program": self, "_place": place})
        self._classes[name] = made
        self._held[place] = made
        return made

    def ask(self, do: str, *arguments: object, **keywords: object) -> Any:
        sent = {"do": do, "arguments": self._encode(list(arguments)), "keywords": self._encode(keywords)}
        try:
            channel.send(self._connection, sent)
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
        if isinstance(it, Proxy):
            it.__dict__["_trusted"] = True
        return it

    def _receive(self) -> dict[str, Any]:
        line = self._lines.readline(channel.LINE_LIMIT + 1)
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
        return codec.encode(value, self._rare)

    def _rare(self, value: object, depth: int) -> object:
        def below(part: object) -> object:
            return codec.encode(part, self._rare, None, depth + 1)

        form = arrays.form(value, below) if arrays.is_of_numpy(value) else library.form(value, below)
        if form is None and not issubclass(type(value), _PLAIN):
            return {"r": self._name(value)}
        return form

    @staticmethod
    def _name(value: object) -> object:
        """How the program's process finds it."""
        if isinstance(value, Proxy | _ProxyClass):
            return value._place
        name = getattr(value, "__name__", "")
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return name
        raise CannotCross(f"a test passes a {type(value).__name__}, and only plain values cross to the program")

    def _decode(self, data: object) -> Any:
        return codec.decode(data, self._rebuild)

    def _rebuild(self, tag: str, body: Any, depth: int) -> object:
        if tag == "r":
            return self._hold(body)
        return link.value(body, lambda part: codec.decode(part, self._rebuild, depth + 1))

    def _checked(self, data: object) -> Any:
        try:
            return self._decode(data)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
            raise Garbled from None

    def _hold(self, form: Any) -> object:
        place, kinds = form
        if place not in self._held:
            made = next((self._classes[kind] for kind in kinds if kind in self._classes), Proxy)
            self._held[place] = self.refer(made, int(place))
        return self._held[place]

    def refer(self, made: "type[Proxy]", place: int, **more: bool) -> "Proxy":
        it = object.__new__(made)
        it.__dict__.update(_proxied_program=self, _place=place, **more)
        return it

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


def _builtin_error(kinds: Sequence[object]) -> type[Exception]:
    found = [getattr(builtins, kind, None) for kind in kinds if isinstance(kind, str)]
    return next((kind for kind in found if isinstance(kind, type) and issubclass(kind, Exception)), Exception)


def _update(mine: object, theirs: object) -> None:
    if type(mine) is not type(theirs):
        return
    changed: Any = theirs  # of the same type: mypy sees an object
    if isinstance(mine, list):
        mine[:] = changed
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(changed)


class _ProxyClass(type):
    """What a class of the program is to the tests: calling it makes an object over there."""

    _proxied_program: Program
    _place: int

    def __call__(cls, *arguments: object, **keywords: object) -> Any:
        return cls._proxied_program.make(cls, *arguments, **keywords)

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__") or name in ("_proxied_program", "_place"):
            raise AttributeError(name)
        return cls._proxied_program.ask("getattr", cls, name)


class Proxy(metaclass=_ProxyClass):
    """What stays in the program's process. See the rules above."""

    _proxied_program: Program
    _place: int
    _trusted = False
    _is_attribute = False

    def __call__(self, *arguments: object, **keywords: object) -> object:
        if self._is_attribute:
            raise CannotCross("a test calls a method of an object that the program made, whose word alone would count")
        return self._proxied_program.ask("call", self, *arguments, **keywords)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        item = self._proxied_program.ask("getattr", self, name)
        if isinstance(item, Proxy) and not self._trusted:
            return self._proxied_program.refer(type(item), item._place, _is_attribute=True)
        return item

    def __setattr__(self, name: str, value: object) -> None:
        self._proxied_program.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._proxied_program.ask("delattr", self, name)

    def __iter__(self) -> Iterator[object]:
        items = self._proxied_program.ask("iter", self)
        while True:
            try:
                item = self._proxied_program.ask("next", items)
            except StopIteration:
                return
            yield item

    def __next__(self) -> object:
        return self._proxied_program.ask("next", self)

    def __len__(self) -> int:
        return self._proxied_program.ask("len", self)  # type: ignore[no-any-return]

    def __getitem__(self, key: object) -> object:
        return self._proxied_program.ask("getitem", self, key)

    def __setitem__(self, key: object, value: object) -> None:
        self._proxied_program.ask("setitem", self, key, value)

    def __delitem__(self, key: object) -> None:
        self._proxied_program.ask("delitem", self, key)

    def __bool__(self) -> bool:
        return self._proxied_program.ask("bool", self)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._proxied_program.ask("str", self)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self._proxied_program.ask("repr", self)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Proxy):
            return False
        if self._place == other._place:
            return True
        return type(self) is type(other) is not Proxy and bool(self._proxied_program.ask("eq", self, other))

    def __hash__(self) -> int:
        return self._place

    def __enter__(self) -> object:
        return self._proxied_program.ask("enter", self)

    def __exit__(self, *_: object) -> None:
        self._proxied_program.ask("leave", self)


def _binary(name: str, special: str) -> None:
    def method(self: Proxy, other: object) -> object:
        if isinstance(other, Proxy):
            return self._proxied_program.ask(name, self, other)
        return NotImplemented

    setattr(Proxy, special, method)


def _unary(name: str, special: str) -> None:
    setattr(Proxy, special, lambda self: self._proxied_program.ask(name, self))


for _name in (*channel.COMPARISONS, *channel.ARITHMETIC):
    _binary(_name, f"__{_name.strip('_')}__")
for _name in channel.SINGLE:
    _unary(_name, f"__{_name}__")
