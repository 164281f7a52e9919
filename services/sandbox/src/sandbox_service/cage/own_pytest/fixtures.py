"""The fixtures that pytest itself has, as far as tests apart from their program can use them."""

import os
import types
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_service.cage.own_pytest import captures, little_pytest, patches

NOTHING: Any = object()


class TempPathFactory:
    def mktemp(self, basename: str, numbered: bool = True) -> Any:
        return _folder(basename)

    def getbasetemp(self) -> Any:
        return _folder("base")


def _folder(name: str) -> Any:
    import pathlib
    import tempfile

    return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-")).resolve()


class _LocalPath(str):
    """As much of py.path as tests use."""

    def join(self, *parts: Any) -> "_LocalPath":
        return _LocalPath(os.path.join(self, *map(str, parts)))

    __truediv__ = join

    def mkdir(self, *parts: Any) -> "_LocalPath":
        made = self.join(*parts)
        os.mkdir(made)
        return made

    def write(self, data: Any, mode: str = "w") -> None:
        with open(self, mode) as file:
            file.write(data)

    def read(self, mode: str = "r") -> Any:
        with open(self, mode) as file:
            return file.read()

    def check(self) -> bool:
        return os.path.exists(self)

    exists = check

    def ensure(self, *parts: Any) -> "_LocalPath":
        made = self.join(*parts)
        made.write("", "a")
        return made

    def listdir(self) -> list["_LocalPath"]:
        return [self.join(name) for name in sorted(os.listdir(self))]

    @property
    def strpath(self) -> str:
        return str(self)

    @property
    def basename(self) -> str:
        return os.path.basename(self)


class Request:
    """What a test or a fixture asks of its runner. `param`: of a fixture with params."""

    def __init__(self, fixtures: Any, test: Any, name: str, fixture: str = "", param: Any = NOTHING) -> None:
        self._fixtures = fixtures
        self.fixturename, self.function = fixture, test
        self.instance = getattr(test, "__self__", None)
        self.cls = type(self.instance) if self.instance is not None else None
        self.node = types.SimpleNamespace(name=name.rpartition(".")[2], nodeid=f"tests.py::{name}")
        if param is not NOTHING:
            self.param = param

    def getfixturevalue(self, name: str) -> Any:
        return self._fixtures.value(name, self.node.name)

    def addfinalizer(self, finish: Callable[[], Any]) -> None:
        self._fixtures.at_end(finish)

    def __class_getitem__(cls, _: object) -> Any:
        return cls


def _capsys() -> Iterator[captures.CaptureFixture]:
    yield from captures.capture(binary=False)


def _capsysbinary() -> Iterator[captures.CaptureFixture]:
    yield from captures.capture(binary=True)


def _caplog() -> Iterator[captures.LogCaptureFixture]:
    made = captures.LogCaptureFixture()
    try:
        yield made
    finally:
        made.stop()


def _monkeypatch() -> Iterator[patches.MonkeyPatch]:
    with patches.MonkeyPatch.context() as made:
        yield made


def _recwarn() -> Iterator[Any]:
    with little_pytest.warnings_recorded() as seen:
        yield seen


def _tmpdir() -> _LocalPath:
    return _LocalPath(_folder("test"))


_MAKERS: dict[str, Callable[[], Any]] = {
    "capsys": _capsys,
    "capfd": _capsys,
    "capsysbinary": _capsysbinary,
    "capfdbinary": _capsysbinary,
    "caplog": _caplog,
    "monkeypatch": _monkeypatch,
    "recwarn": _recwarn,
    "tmp_path": lambda: _folder("test"),
    "tmpdir": _tmpdir,
    "tmp_path_factory": TempPathFactory,
}
OFFERED = {name: little_pytest.Fixture(make, {"name": name}) for name, make in _MAKERS.items()}
CLASSES = (captures.CaptureFixture, captures.LogCaptureFixture, patches.MonkeyPatch, TempPathFactory)
