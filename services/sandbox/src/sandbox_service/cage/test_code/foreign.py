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

from sandbox_service.cage.objects.proxy import Proxy
from sandbox_service.cage.wire.errors import CannotCross

_IMPORTERS = "<frozen importlib"
# Of the library, what compiles texts that it has made itself, or only parses them. All else runs what it is given:
# runpy, timeit, typing (annotations that are strings), inspect, logging.config.
_GENERATORS = {"ast", "collections", "dataclasses", "unittest.mock"}
_RUNNERS = {"sympy.parsing.sympy_parser"}  # of packages
_INNER = ("", ", _setup=_setup", ", _stmt=_stmt", ", _setup=_setup, _stmt=_stmt")
_TEMPLATE = {"_stmt()", "_setup()", "pass", *(f"def inner(_it, _timer{more}):" for more in _INNER)}  # timeit's
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
        text = source.decode(errors="replace") if isinstance(source, bytes) else source
        if isinstance(text, str) and self._is_own(text, caller, module):
            return
        if not _makes_its_texts(where, module) and not _is_imported(caller):
            raise CannotCross("a test runs code from a text that is not its own and may be the program's")

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

    def _is_own(self, text: str, caller: types.FrameType | None, module: str) -> bool:
        """Line by line where the library puts lines of its own around, or takes the margin off."""
        if module not in ("doctest", "timeit"):
            return self._stands_there(text)
        template = caller.f_globals["template"].splitlines() if caller and module == "timeit" else []
        of_library = {line.strip() for line in template} | _TEMPLATE
        lines = [line.strip() for line in text.splitlines()]
        return all(line in of_library or self._stands_there(line) for line in lines)

    def _stands_there(self, text: str) -> bool:
        return text.strip() in self._own or repr(text)[1:-1] in self._own


def _place(frame: types.FrameType | None) -> tuple[str, str]:
    """File and module of the code that does it."""
    return (frame.f_code.co_filename, str(frame.f_globals.get("__name__"))) if frame else ("", "")


def _is_of_library(file: str) -> bool:
    return file.startswith((*_FOLDERS, _IMPORTERS))


def _is_imported(frame: types.FrameType | None) -> bool:
    """Whether a module is just being imported, of the library: see `_Watch.open`."""
    while frame is not None and frame.f_code.co_filename != "tests.py":
        if frame.f_code.co_filename.startswith(_IMPORTERS):
            return True
        frame = frame.f_back
    return False


def _makes_its_texts(file: str, module: str) -> bool:
    if not _is_of_library(file):
        return False
    if module.partition(".")[0] in sys.stdlib_module_names:
        return module in _GENERATORS
    return module not in _RUNNERS


# Python's own, its packages', and the cage's, of whatever is on the path at the start: but never the current folder.
_FOLDERS = tuple({f"{path}/" for path in (*sys.path, sys.prefix, __file__.rsplit("/", 2)[0]) if path.startswith("/")})


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
