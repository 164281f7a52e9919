"""The program's side of a check test: it owns the objects that the tests use through proxies. See proxies.py.

What it lends, as forms:

    r  an object: its place, the number of its type, and at the first mention of that the type's kinds, special methods
       and functions
    k  a class: its place, kinds, special methods and functions, and of an enum its members
    v  a member of an enum: the place of its class, its name
    p  a property, as its class has it: what gets, sets and deletes, and its docstring
"""

# ruff: noqa: BLE001 (programs may raise anything, and whatever they raise is an answer)

import _socket
import operator
import types
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import describe, guests, link, reports, series, surroundings
from sandbox_service.cage.run import runner
from sandbox_service.cage.wire import channel

# Types that tests may get as they are: what's done with them is done there, by the tests' own.
_TYPES = {
    "builtins", "types", "collections", "datetime", "decimal", "fractions", "pathlib", "uuid", "array", "ipaddress",
    "numpy",
}  # fmt: skip
_MOST_FUNCTIONS = 500
_MOST_SHARED = 1000  # lists and the like in answers that the tests hold; what is beyond that they get as copies


def _vars(value: Any) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
    held = getattr(value, "__dict__", {})
    if not isinstance(held, dict):  # the class has made a method of it
        held = object.__getstate__(value)
    return {**found, **(held if isinstance(held, dict) else {})}


def _slots(kind: type) -> list[str]:
    slots = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    return [name for one in slots for name in ([one] if isinstance(one, str) else one) if name[:2] != "__"]


def _special(value: Any, name: str, *arguments: Any) -> Any:
    return getattr(type(value), name)(value, *arguments)


def _base(value: Any) -> Any:
    """What an instance of a subclass of a plain type is as that type."""
    kind: Any = next((base for base in type(value).__mro__ if base in link.PLAIN), None)
    if kind is None:
        return NotImplemented
    if kind in (list, tuple, set, frozenset):
        return kind(kind.__iter__(value))
    return dict(dict.items(value)) if kind is dict else kind.__new__(kind, value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, /, *arguments, **keywords: function(*arguments, **keywords),
    "method": lambda it, name, /, *arguments, **keywords: getattr(it, name)(*arguments, **keywords),
    "exit": lambda it, error: type(it).__exit__(it, error and type(error), error, None),
    "function": lambda cls, name, /, *arguments, **keywords: getattr(cls, name)(*arguments, **keywords),
    "getattr": getattr, "setattr": setattr, "delattr": delattr, "special": _special, "iter": iter, "next": next,
    "item": operator.getitem, "len": len, "vars": _vars, "base": _base, "member": operator.getitem,
    "isinstance": isinstance, "issubclass": issubclass, "shape": describe.shape, "annotations": describe.annotations,
    "send": types.GeneratorType.send, "throw": types.GeneratorType.throw, "close": types.GeneratorType.close,
    "copy": lambda it: __import__("copy").copy(it), "deepcopy": lambda it: __import__("copy").deepcopy(it),
}  # fmt: skip


class Owner(link.Link):
    """Answers what the tests ask, one request at a time."""

    def __init__(self, connection: _socket.socket, module: types.ModuleType, entry: object) -> None:
        super().__init__(connection, -1, _MOST_SHARED)
        self._module, self._entry = module, entry
        self._reports: reports.Reports | None = None
        self._lent: list[object] = []
        self._places: dict[int, int] = {}
        self._types: dict[type, int] = {}
        self._guests = guests.Guests(self)
        self._loop: Any = None
        self._is_asked = False

    def serve(self, seen: reports.Reports) -> None:
        """Until the tests hang up. `seen`: what they see of it beside what it answers."""
        self._reports = seen
        seen.take()  # what it did when it was loaded
        try:
            while True:
                self.answer_one()
        except EOFError:
            return

    def answer_one(self) -> None:
        """Raises EOFError when the tests have hung up."""
        self._send(self._answer(self._receive()))

    def ask(self, do: str, number: int, /, *arguments: object, **keywords: object) -> Any:
        """Of an object of the tests. Raises what that raises."""
        sharing, self._sharing = self._sharing, True
        try:
            request = self._pack(do, arguments, keywords)
        finally:
            self._sharing = sharing
        answer = self._request({**request, "on": number})
        try:
            if "raised" in answer:
                raise self._guests.error(answer["raised"], self._decode)
            return self._decode(answer["value"])
        finally:
            self._forget(answer)

    def _send(self, message: dict[str, Any]) -> None:
        if self._reports is None:
            runner.flush()
        elif events := self._reports.take():
            message["seen"] = events
        super()._send(message)

    def _receive(self) -> dict[str, Any]:
        message = super()._receive()
        if changes := message.get("surroundings"):
            surroundings.take_over(changes)
        return message

    def read(self, do: str, *arguments: object) -> Any:
        """From what the tests have put in place of standard input, and None where they have nothing, or do not wait."""
        if not self._is_asked:
            return None
        return self.ask(do, 0, *arguments)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        before, self._is_asked = self._is_asked, True
        try:
            return self._done(request)
        finally:
            self._is_asked = before

    def _done(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apart, so that none of the objects is held when `_send` looks which are."""
        try:
            do = request["do"]
            arguments, keywords = self._unpack(request)
            self._forget(request)
            if do == "make":
                made = arguments[0](*arguments[1:], **keywords)
                self._note_changes()
                known = type(made).__module__ == self._module.__name__ and not _is_enum(type(made))
                return {"value": self._lend(made) if known else self._encode(made)}
            if do == "series":
                function, inputs, seconds = arguments
                found, ended = series.run(function, inputs, seconds, self._encode)
                return {"value": {"t": [found, self._encode(ended)]}}
            value = self._operation(do)(*arguments, **keywords)
            self._note_changes()
            self._sharing = do != "series"
            return {"value": self._encode(value)}
        except BaseException as error:
            return {"raised": self._raised(error)}
        finally:
            self._sharing = False

    def _operation(self, do: str) -> Callable[..., Any]:
        if do in OPERATIONS:
            return OPERATIONS[do]
        own: dict[str, Callable[..., Any]]
        own = {
            "names": self._names, "subclass": self._subclass, "await": self._await, "anext": self._next,
            "asend": lambda it, value: self._await(it.asend(value)), "aclose": lambda it: self._await(it.aclose()),
            "aenter": lambda it: self._await(type(it).__aenter__(it)), "aexit": self._exit_async,
        }  # fmt: skip
        return own[do]

    def _names(self, wanted: tuple[str, ...]) -> list[Any]:
        """What there is of the names, a class after those that it's made of, and the entry point."""
        found = {name: self._module.__dict__[name] for name in wanted if name in self._module.__dict__}
        wanted = tuple(sorted(found, key=lambda name: len(getattr(found[name], "__mro__", ()))))
        found = {name: found[name] for name in wanted}
        return [{name: item for name, item in found.items() if not isinstance(item, types.ModuleType)}, self._entry]

    def _subclass(self, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> int:
        """The place of a class that the tests make over one of the program."""
        namespace = {**attributes, "__module__": self._module.__name__}
        return self._place(types.new_class(name, bases, {}, lambda made: made.update(namespace)))

    def _await(self, awaitable: Any) -> Any:
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(awaitable)

    def _next(self, iterator: Any) -> Any:
        return self._await(iterator.__anext__())

    def _exit_async(self, it: Any, error: Any) -> Any:
        return self._await(type(it).__aexit__(it, error and type(error), error, None))

    # --- what crosses

    def _own(self, value: Any) -> Any:
        number = self._guests.number(value)
        if number is not None:
            return {"m": number}
        kind = type(value)
        if isinstance(value, type):
            name = link.name_of(value)
            if name and name[0].partition(".")[0] in _TYPES:
                return {"g": name}
            return {"k": self._class(value)}
        if _is_enum(kind) and kind.__module__ == self._module.__name__ and isinstance(value._name_, str):
            return {"v": [self._class(kind), value._name_]}
        if kind is property:
            return {"p": [self._encode(part) for part in (value.fget, value.fset, value.fdel, value.__doc__)]}
        return self._lend(value) if id(value) in self._places else None

    def _place(self, value: object) -> int:
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self._lent)
            self._lent.append(value)  # and so its id stays its own
        return place

    def _lend(self, value: Any) -> Any:
        kind = type(value)
        place, number = self._place(value), self._types.get(kind)
        if number is not None:
            return {"r": [place, number]}
        number = self._types[kind] = len(self._types)
        return {"r": [place, number, *self._traits(kind)]}

    def _class(self, kind: type) -> list[Any]:
        known = id(kind) in self._places
        place = self._place(kind)
        if known:
            return [place]
        members = None
        if _is_enum(kind):
            members = describe.members(kind)
        return [place, *self._traits(kind), members]

    def _raised(self, error: BaseException, depth: int = 0) -> dict[str, Any]:
        number = self._guests.number(error)
        if number is not None:
            return {"m": number}
        form = super()._raised(error)
        number = self._guests.number(type(error))
        if number is not None:
            form["of"] = number
        elif type(error).__module__ != "builtins":
            form["place"] = self._place(error)
        cause = error.__cause__
        if cause is not None and depth < 3:
            form["cause"] = self._raised(cause, depth + 1)
        return form

    def _traits(self, kind: type) -> list[Any]:
        functions = [name for name, item in kind.__dict__.items() if isinstance(item, types.FunctionType)]
        shown = [name for name in functions if not name.startswith("_") or name == "__init__"][:_MOST_FUNCTIONS]
        return [link.kinds(kind) or ["object"], channel.specials(kind), shown, describe.facts(kind, self._encode)]

    def own_class(self, name: str) -> type | None:
        """The program's class of this name."""
        found = self._module.__dict__.get(name)
        return found if isinstance(found, type) else None

    def lent(self, place: int) -> Any:
        return self._lent[place]

    def _found(self, number: int) -> Any:
        return self._guests[number] if number in self._guests else self._shared[number]

    def _theirs(self, tag: str, body: Any) -> Any:
        if tag == "r":
            return self._lent[body]
        if tag == "k":
            return self._lent[body]
        if tag == "v":
            return self._lent[body[0]][body[1]]
        if tag == "g":
            return link.find(*body)
        if tag == "q":
            number, what, name, specials, parameters, kind, words = body
            kind, words = self._decode(kind), self._decode(words)
            return self._guests.stand_in(number, what, name, specials, parameters, kind, words)
        if tag == "e":
            return self._guests.error_class(*body)
        if tag == "x":
            return self._guests.error(body, self._decode)
        raise ValueError(tag)


def _is_enum(kind: type) -> bool:
    return any(base.__module__ == "enum" and base.__name__ == "Enum" for base in kind.__mro__)
