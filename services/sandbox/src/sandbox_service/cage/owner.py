"""The program's side of opaque test code: it owns the objects that the tests use through proxies. See proxies.py."""

# ruff: noqa: BLE001 (programs may raise anything, and whatever they raise is an answer)

import builtins
import json
import operator
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

import arrays
import channel
import codec
import library
import link
import runner

_CONSTANTS_LIMIT = 1 << 18
_PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


def _call(function: Callable[..., object], *arguments: object, **keywords: object) -> object:
    return function(*arguments, **keywords)


OPERATIONS: dict[str, Callable[..., object]] = {
    "call": _call, "getattr": getattr, "setattr": setattr, "delattr": delattr, "len": len, "bool": bool, "str": str,
    "repr": repr, "iter": iter, "next": next, "getitem": operator.getitem, "setitem": operator.setitem,
    "delitem": operator.delitem, "enter": lambda it: it.__enter__(), "leave": lambda it: it.__exit__(None, None, None),
    **{name: getattr(operator, name) for name in ["eq", *channel.COMPARISONS, *channel.ARITHMETIC, *channel.SINGLE]},
}  # fmt: skip


class Owner:
    """Answers what the tests ask, one request at a time."""

    def __init__(self, connection: socket.socket, module: types.ModuleType, entry: object) -> None:
        self._connection, self._module, self._entry = connection, module, entry
        self._lent: list[object] = []
        self._places: dict[int, int] = {}

    def serve(self) -> None:
        lines = self._connection.makefile("rb")
        channel.send(self._connection, self._hello())
        for line in lines:
            channel.send(self._connection, self._answer(json.loads(line)))

    def _hello(self) -> dict[str, Any]:
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
                hello["classes"].append([name, self._encode(item), runner.kinds(item)])
            elif callable(item):
                home = getattr(item, "__module__", None)
                if isinstance(home, str) and _is_of_the_library(home, name, item):
                    hello["library"][name] = home
                else:
                    hello["functions"][name] = self._encode(item)
        return hello

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments = self._decode(request["arguments"])
        keywords = self._decode(request["keywords"])
        forms = request["arguments"]
        own = [i for i, form in enumerate(forms) if not (isinstance(form, dict) and "r" in form)]  # copies of theirs
        before = json.dumps([forms[i] for i in own])
        try:
            answer: dict[str, Any] = {"value": self._encode(OPERATIONS[request["do"]](*arguments, **keywords))}
        except BaseException as error:
            runner.relieve(error)
            answer = {"raised": [*runner.describe(error), runner.kinds(type(error))]}
        after = {i: self._encode(arguments[i]) for i in own}
        if json.dumps(list(after.values())) != before:
            answer["arguments"] = [after.get(i) for i in range(len(forms))]
        runner.flush()
        return answer

    def _encode(self, value: object) -> object:
        return codec.encode(value, self._rare)

    def _decode(self, data: object) -> Any:
        return codec.decode(data, self._rebuild)

    def _rare(self, value: object, depth: int) -> object:
        def below(part: object) -> object:
            return codec.encode(part, self._rare, None, depth + 1)

        form = arrays.form(value, below) if arrays.is_of_numpy(value) else library.form(value, below)
        if form is None and not issubclass(type(value), _PLAIN):
            return {"r": self._lend(value)}
        return form

    def _rebuild(self, tag: str, body: Any, depth: int) -> object:
        if tag == "r":
            return self._found(body)
        return link.value(body, lambda part: codec.decode(part, self._rebuild, depth + 1))

    def _lend(self, value: object) -> object:
        """Its number, and the names of its classes."""
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self._lent)
            self._lent.append(value)  # and so its id stays its own
        return [place, runner.kinds(type(value))]

    def _found(self, form: Any) -> object:
        return getattr(builtins, form) if isinstance(form, str) else self._lent[form]


def _is_of_the_library(module: str, name: str, item: object) -> bool:
    return module in channel.LIBRARY and getattr(sys.modules.get(module), name, None) is item
