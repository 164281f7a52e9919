"""What the program made is never run by the tests' process: no text of its, no pickle that calls things, no module.

`assert eval(f(3)) == 9`, and a program whose text makes an object that equals all. Texts that stand in the test code
are its own, and so is what the library makes (dataclasses, namedtuple). All else is refused once the program was asked:
such tests are for the shared kind. Python says what it's about to run to audit hooks, PEP 578; there is no way to take
one off again.
"""

import posix
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from standing import CannotCross, Proxy

_IMPORTERS = "<frozen importlib"
# What runs a text that it was given, and is no test.
_RUNNERS = {
    "runpy",
    "code",
    "codeop",
    "timeit",
    "pdb",
    "bdb",
    "trace",
    "profile",
    "cProfile",
    "sympy.parsing.sympy_parser",
}
# What a pickle may make, beside exceptions and objects of the tests' own classes. None of these calls anything.
_DATA = {
    "builtins": {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object",
                 "range", "set", "slice", "str", "tuple"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "copyreg": {"__newobj__", "_reconstructor"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"}, "fractions": {"Fraction"}, "uuid": {"UUID"}, "types": {"SimpleNamespace"},
    "array": {"_array_reconstructor", "array"}, "pathlib": {"PosixPath", "PurePosixPath", "PureWindowsPath"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"}, "numpy._core.multiarray": {"_reconstruct", "scalar"},
}  # fmt: skip


def refuse(was_used: Callable[[], bool], texts: Iterable[str]) -> None:
    """From now on, in this process. `texts`: of the tests and their modules."""
    watch = _Watch("\n".join(texts), f"{posix.getcwd()}/")
    events: dict[str, Callable[..., None]] = {
        "compile": watch.compile,
        "marshal.loads": watch.unmarshal,
        "open": watch.open,
        "pickle.find_class": watch.unpickle,
    }

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in events and was_used():
            events[event](sys._getframe(1), *arguments)

    sys.addaudithook(hook)


class _Watch:
    def __init__(self, own: str, folder: str) -> None:
        self._own, self._folder = own, folder

    def compile(self, caller: types.FrameType | None, source: Any, file: Any) -> None:
        where, module = _place(caller)
        if where.startswith(_IMPORTERS):
            return  # see `open`
        if module == "doctest":
            fine = self._is_own(source, by_line=True)
        else:
            fine = self._is_own(source) or (_is_of_library(where) and module not in _RUNNERS)
        if not fine:
            raise CannotCross("a test runs a text that does not stand in it, and that may be the program's")

    def unmarshal(self, caller: types.FrameType | None, *_: Any) -> None:
        if not _is_of_library(_place(caller)[0]):
            raise CannotCross("a test loads code that may be the program's")

    def open(self, caller: types.FrameType | None, path: Any, *_: Any) -> None:
        where, _module = _place(caller)
        if where.startswith(_IMPORTERS) and isinstance(path, str) and path.startswith(self._folder):
            raise CannotCross("a test imports a file from the folder that the program may write to")

    def unpickle(self, _: types.FrameType | None, module: str, name: str) -> None:
        if not (name in _DATA.get(module, ()) or _is_made_by_tests(module, name) or _is_error(module, name)):
            raise CannotCross(f"a test loads a pickle that names {module}.{name}, and may be the program's")

    def _is_own(self, source: Any, by_line: bool = False) -> bool:
        if isinstance(source, bytes):
            source = source.decode(errors="replace")
        if not isinstance(source, str):
            return False
        parts = source.splitlines() if by_line else [source]
        return all(part.strip() in self._own or repr(part)[1:-1] in self._own for part in parts)


def _place(frame: types.FrameType | None) -> tuple[str, str]:
    """File and module of the code that does it."""
    return (frame.f_code.co_filename, str(frame.f_globals.get("__name__"))) if frame else ("", "")


def _is_of_library(file: str) -> bool:
    return file.startswith((*_FOLDERS, _IMPORTERS))


# Python's own, its packages', and the cage's, of whatever is on the path at the start: but never the current folder.
_FOLDERS = tuple({f"{path}/" for path in (*sys.path, sys.prefix, __file__.rpartition("/")[0]) if path.startswith("/")})


def _is_made_by_tests(module: str, name: str) -> bool:
    found: Any = sys.modules.get(module)
    if module != "__main__":
        return False
    for part in name.split("."):
        found = vars(found).get(part) if isinstance(found, types.ModuleType | type) else None
    return isinstance(found, type) and found.__module__ == "__main__" and not issubclass(found, Proxy)


def _is_error(module: str, name: str) -> bool:
    found = vars(sys.modules["builtins"]).get(name)
    return module == "builtins" and isinstance(found, type) and issubclass(found, BaseException)
