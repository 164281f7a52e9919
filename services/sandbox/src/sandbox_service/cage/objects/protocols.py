"""Operators on proxies, continued: what is awaited, what generators have, copies, what an object is in a class of the
tests. The rules are in standing.py.
"""

import types
from typing import Any

from sandbox_service.cage.objects import grades, standing
from sandbox_service.cage.wire.errors import CannotCross


def copied(self: Any, do: str) -> Any:
    """Of what the tests made: it's as good as made by them."""
    if standing.rank_of(self) is not grades.MADE:
        raise CannotCross("a test copies one of the program's objects")
    return type(self).__program__.ask_for(grades.OF_MADE, do, self)


class Copied:
    """`__copy__`, `__deepcopy__`. An iterator of the program's seems to have neither: itertools.tee asks for one."""

    def __init__(self, do: str) -> None:
        self._do = do

    def __get__(self, it: Any, kind: Any = None) -> Any:
        if it is None:
            return lambda it, *_: copied(it, self._do)
        if hasattr(type(it), "__next__") and standing.rank_of(it) is not grades.MADE:
            raise AttributeError(f"__{self._do}__")
        return lambda *_: copied(it, self._do)


def of_generator(self: Any, name: str) -> Any:
    """Its send, throw or close: what comes of it is as good as what comes next."""

    def method(*arguments: Any) -> Any:
        try:
            return type(self).__program__.ask_for(standing.grade_within(self), name, self, *arguments)
        except StopIteration:
            standing.set_slot(self, "_exhausted", True)
            raise

    return method


async def _enter_async(self: Any) -> Any:
    return type(self).__program__.ask_for(standing.grade_within(self), "aenter", self)


async def _exit_async(self: Any, kind: Any, error: Any, trace: Any) -> bool:
    swallowed = type(self).__program__.ask("aexit", self, error)
    return bool(swallowed) and standing.may_be_swallowed(error)


def _iter_async(self: Any) -> Any:
    return type(self).__program__.ask_for(standing.grade_within(self), "special", self, "__aiter__")


async def _next_async(self: Any) -> Any:
    return type(self).__program__.ask_for(standing.grade_within(self), "anext", self)


def _await(self: Any) -> Any:
    async def run() -> Any:
        return type(self).__program__.ask_for(standing.grade_within(self), "await", self)

    return run().__await__()


OPERATORS: dict[str, Any] = {
    "__aenter__": _enter_async,
    "__aexit__": _exit_async,
    "__aiter__": _iter_async,
    "__anext__": _next_async,
    "__await__": _await,
}


def bind(self: Any, it: Any, kind: Any = None) -> Any:
    """A function of the program is a method in a class of the tests, as any function is."""
    return self if it is None else types.MethodType(self, it)


def descriptor(name: str) -> Any:
    def act(self: Any, *arguments: Any) -> Any:
        type(self).__program__.epoch += name != "__get__"
        return type(self).__program__.ask_for(standing.grade_within(self), "special", self, name, *arguments)

    return act
