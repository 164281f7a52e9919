"""What pytest's monkeypatch gives to tests; and the patches, by it and by unittest.mock, that no program apart sees."""

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_service.cage.wire.errors import CannotCross

_NOTHING: Any = object()
_SEEN = {"builtins.input", "sys.stdin", "sys.stdout", "sys.stderr", "sys.argv", "os.environ"}
_are_apart = False


def are_apart(code: str) -> None:
    """From now on patches of what a program uses raise CannotCross: it's in another process. `code`: of the tests."""
    global _are_apart
    _are_apart = True
    if "mock" not in code:
        return
    from unittest import mock

    patch: Any = vars(mock)["_patch"]
    enter = patch.__enter__

    def entered(self: Any) -> Any:
        _check(self.getter(), self.attribute)
        return enter(self)

    patch.__enter__ = entered


def _check(target: Any, name: str) -> None:
    module = getattr(target, "__name__", "")
    is_seen = module == "__main__" or f"{module}.{name}" in _SEEN
    if _are_apart and isinstance(target, types.ModuleType) and not is_seen:
        raise CannotCross(f"a test patches {module}.{name}, which the program would not see")


class MonkeyPatch:
    """Of what is the tests' own, and of what the program sees of it: environment, folder, arguments, streams, input."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def setattr(self, target: Any, name: Any, value: Any = _NOTHING, raising: bool = True) -> None:
        if value is _NOTHING:
            value = name
            target, name = _found(target)
        _check(target, name)
        before = target.__dict__.get(name, _NOTHING) if isinstance(target, type) else getattr(target, name, _NOTHING)
        if before is _NOTHING and raising and not hasattr(target, name):
            raise AttributeError(f"{target!r} has no attribute {name!r}")
        self._undo.append(lambda: delattr(target, name) if before is _NOTHING else setattr(target, name, before))
        setattr(target, name, value)

    def delattr(self, target: Any, name: Any = _NOTHING, raising: bool = True) -> None:
        if name is _NOTHING:
            target, name = _found(target)
        _check(target, name)
        before = getattr(target, name, _NOTHING)
        if before is not _NOTHING or raising:
            delattr(target, name)
            self._undo.append(lambda: setattr(target, name, before))

    def setitem(self, mapping: Any, name: Any, value: Any) -> None:
        before = mapping.get(name, _NOTHING)
        self._undo.append(lambda: mapping.pop(name, None) if before is _NOTHING else mapping.update({name: before}))
        mapping[name] = value

    def delitem(self, mapping: Any, name: Any, raising: bool = True) -> None:
        if name in mapping or raising:
            before = mapping.pop(name)
            self._undo.append(lambda: mapping.update({name: before}))

    def setenv(self, name: str, value: Any, prepend: str | None = None) -> None:
        value = str(value)
        if prepend and name in os.environ:
            value = value + prepend + os.environ[name]
        self.setitem(os.environ, name, value)

    def delenv(self, name: str, raising: bool = True) -> None:
        self.delitem(os.environ, name, raising)

    def chdir(self, path: Any) -> None:
        before = os.getcwd()
        self._undo.append(lambda: os.chdir(before))
        os.chdir(path)

    def syspath_prepend(self, path: Any) -> None:
        before = list(sys.path)
        self._undo.append(lambda: sys.path.__setitem__(slice(None), before))
        sys.path.insert(0, str(path))

    @classmethod
    @contextlib.contextmanager
    def context(cls) -> Iterator["MonkeyPatch"]:
        made = cls()
        try:
            yield made
        finally:
            made.undo()

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _found(path: str) -> tuple[Any, str]:
    """What holds the last part of a dotted name, and that part."""
    first, *middle, last = path.split(".")
    target: Any = __import__(first)
    walked = first
    for part in middle:
        walked = f"{walked}.{part}"
        if not hasattr(target, part):
            __import__(walked)
        target = getattr(target, part)
    return target, last
