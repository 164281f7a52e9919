"""What a forked child does with a program: load it, run it, and report what came back.

It judges nothing. It reports in frames, one JSON list per line, `[nonce, kind, ...]`:
  compiled | loaded | value, index, encoded | raised, index, type, message, names | error, type, message | end
`names` are those of the exception's type and of the types that it is a kind of.
The program can find the nonce and write frames itself; all that it can report that way is an answer to given arguments.
"""

# ruff: noqa: BLE001 (a program may raise anything, and whatever it raises is an answer)

import _weakref
import builtins
import gc
import os
import signal
import sys
import types
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from sandbox_service.cage.own_pytest import little_pytest
from sandbox_service.cage.wire import arrays, codec, library, wire

_TEXT_LIMIT = 1024
FILE, _MARK = "program.py", "\ufeff"
_LOOKS_AT_ITS_FILE = ("__file__", "argv", "linecache", "multiprocessing", FILE)


def relieve(error: BaseException) -> None:
    """What the frames of a MemoryError hold may be all the memory there is: no list can be made before it's let go."""
    if isinstance(error, MemoryError):
        error.__traceback__ = error.__context__ = None


def describe(raised: BaseException) -> tuple[str, str]:
    """The type's name and the message, safe against a __str__ that raises, loops in memory or isn't UTF-8."""
    try:
        message = str(raised)[:_TEXT_LIMIT]
    except BaseException as error:
        message = f"<its __str__ raised {type(error).__name__}>"
    return type(raised).__name__[:_TEXT_LIMIT], str.__str__(message).encode("utf-8", "replace").decode()


def kinds(kind: type) -> list[str]:
    """The type's name and those of the types that it's a kind of, the nearest first."""
    return [one.__name__[:_TEXT_LIMIT] for one in kind.__mro__[:32] if one is not object]


def fill_stdin(descriptor: int, text: str) -> None:
    """Standard input is an anonymous file: it can't block, and no process has to feed it."""
    wire.write_all(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)


def make_streams() -> None:
    """Text streams over descriptors 0-2, made once in the keeper, which never uses them: their buffers are empty when
    a program inherits them, and by then the descriptors are the program's own."""
    # ruff: noqa: SIM115 (they live as long as the process)
    sys.stdin = open(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False)
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False)
    # as these are final in the stubs of sys
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)


def compile_program(
    source: str, frames: wire.Frames, before_error: Callable[[], object] = lambda: None
) -> types.CodeType | None:
    """None where it doesn't: that's reported, after `before_error`."""
    try:
        code = compile(source.removeprefix(_MARK), FILE, "exec", dont_inherit=True)
    except BaseException as error:
        before_error()
        frames.send("error", *describe(error))
        return None
    frames.send("compiled")
    return code


class Source:
    """A module's loader. inspect, linecache and traceback ask it for the text, where there is no file."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, name: str) -> str:
        return self._text.removeprefix(_MARK)

    def lines(self) -> list[str]:
        return self.get_source("").splitlines(keepends=True)

    def write_file(self) -> None:
        """Leaves a file that is there alone: the program may have come with it."""
        try:
            descriptor = os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        wire.write_all(descriptor, self._text.encode())
        os.close(descriptor)


def load(code: types.CodeType, name: str, source: str) -> types.ModuleType:
    """As Python does with a file in the current folder; the file itself is only there for what may look at it."""
    module = types.ModuleType(name)
    folder, loader = os.getcwd(), Source(source)
    vars(module).update(
        __builtins__=builtins, __file__=f"{folder}/{FILE}", __cached__=None, __loader__=loader, __annotations__={}
    )
    if any(word in source for word in _LOOKS_AT_ITS_FILE):
        loader.write_file()
    sys.path.insert(0, folder)
    sys.modules[name] = module
    if "pytest" in source and find_spec("pytest") is None:
        little_pytest.install(None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(code, module.__dict__)
    return module


_OWN_FRAMES = 10
"""Those below a script's first frame: of the cage, and what its calls in C take."""
_MOST_FRAMES = 2**31 - 1  # that Python takes, and that programs ask for


def count_from_the_program() -> None:
    """Python's limit on recursion counts from the program's first frame, and says so. Once, in the keeper."""
    get, change = sys.getrecursionlimit, sys.setrecursionlimit

    def getrecursionlimit() -> int:
        return get() - _OWN_FRAMES

    def setrecursionlimit(limit: int, /) -> None:
        change(min(limit + _OWN_FRAMES, _MOST_FRAMES) if 0 < limit <= _MOST_FRAMES else limit)

    change(get() + _OWN_FRAMES)
    vars(sys).update(getrecursionlimit=getrecursionlimit, setrecursionlimit=setrecursionlimit)


def report(error: BaseException, frames: wire.Frames) -> None:
    """Tells the service, and prints the trace as Python would, without the frames of the cage."""
    relieve(error)
    frames.send("error", *describe(error))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
        trace = trace.tb_next
    try:
        if trace is not None and isinstance(loader := trace.tb_frame.f_globals.get("__loader__"), Source):
            loader.write_file()  # the lines in a trace come from there
        error = error.with_traceback(trace)
        try:
            sys.excepthook(type(error), error, trace)  # it may be the program's own
        except BaseException:
            sys.__excepthook__(type(error), error, trace)
        flush()
    except BaseException:
        pass


def flush() -> None:
    """Also what a program that has put a stream of its own into their place wrote to the first ones."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass


def run_calls(frames: wire.Frames, source: str, entry_point: str, calls: list[Any], plain: bool) -> int:
    """Loads the program, calls its entry point with each list of arguments, sends each answer as soon as it's there.

    `plain`: as it is, and only what is exactly of a plain type of Python's in a form."""
    code = compile_program(source, frames)
    if code is None:
        return 1
    try:
        entry = find(load(code, "program", source), entry_point)
    except BaseException as error:
        report(error, frames)
        return 1
    frames.send("loaded")
    for index, encoded in enumerate(calls):
        try:
            value = entry(*codec.decode(encoded))
            frames.send("value", index, codec.encode(value, _plain) if plain else encode(_awaited(value)))
        except BaseException as error:
            relieve(error)
            frames.send("raised", index, *describe(error), kinds(type(error)))
    frames.send("end")
    flush()
    return 0


def _awaited(value: object) -> object:
    """What comes of a coroutine; any other value as it is."""
    return __import__("asyncio").run(value) if type(value) is types.CoroutineType else value


def encode(value: object) -> object:
    """For a caller's expected literal, so with numpy's values as plain ones."""
    return codec.encode(value, _rare)


def _rare(value: object, depth: int) -> object:
    if depth > codec.MAX_DEPTH - codec.ROOM:
        return None

    def below(part: object) -> object:
        return codec.encode(part, _rare, None, depth + 1)

    return arrays.plain(value, below) if arrays.is_of_numpy(value) else library.form(value, below)


def _plain(value: object, depth: int) -> object:
    return None if type(value) is set else codec.opaque(value)


def find(module: types.ModuleType, name: str) -> Any:
    """`Solution.f` is the method f of a new Solution each time that it's called."""
    owner, _, method = name.rpartition(".")
    make: Any
    if not owner:
        if name in module.__dict__:
            return module.__dict__[name]
    elif hasattr(make := module.__dict__.get(owner), method):
        return lambda *arguments, **keywords: getattr(make(), method)(*arguments, **keywords)
    raise NameError(f"the program defines no {name!r}")


def run_script(frames: wire.Frames, source: str) -> int:
    """Runs the program as `python program.py` would: its exit status is the process's own."""
    code = compile_program(source, frames)
    if code is None:
        return 1
    status = 0
    try:
        load(code, "__main__", source)
    except SystemExit as error:
        status = _exit_status(error)
    except BaseException as error:
        report(error, frames)
        status = 1
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        atexit._run_exitfuncs()
    flush()
    if any(word in source for word in _FINALISED):
        _let_go_of("__main__")
        flush()
    frames.send("end")
    return status


_FINALISED = ("__del__", "finalize", "finally", "open", "Wrapper", "Buffered", "tempfile")
"""What a program names whose objects may have something to do at its end: to take others apart is time for nothing."""


class _Mark:
    """Lives as long as the names that it stands among."""

    __slots__ = ("__weakref__",)


def _let_go_of(name: str) -> None:
    """What the module holds is finalised, as at the end of an interpreter: files are written, `__del__` is called.
    First as it stands, so that a method that is called then still finds its globals; what others hold loses its
    names."""
    try:
        mark = _Mark()
        vars(sys.modules.pop(name))["__mark__"] = mark
        seen = _weakref.ref(mark)
        del mark
        gc.collect()
        left = seen()
        for names in gc.get_referrers(left) if left else ():
            if type(names) is dict:
                for one in [one for one in names if not one.startswith("__")]:
                    names[one] = None
        gc.collect()
    except BaseException:
        pass


def _exit_status(leave: SystemExit) -> int:
    """As the interpreter: None is 0, an integer itself, anything else is printed and 1."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code & 0xFF
    try:
        print(leave.code, file=sys.stderr)
    except BaseException:
        pass
    return 1
