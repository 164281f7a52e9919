"""The rules of docs/service-shape.md, as functions from a parsed file, or a service's folder, to what breaks them."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EVENT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
DOUBLE = re.compile(r"(Memory|Scripted|Fake)[A-Z]\w*")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
OF_EACH_LINE = {"level", "logger", "service", "timestamp"}
CAUSES = {"error", "why", "cause"}
WORDS = {"told", "wish", "wishes", "asked", "around", "why"}
NOT_PRIVATE = {
    "_exit",
    "_mapping",
    "_asdict",
    "_replace",
    "_fields",
    "_make",
    "_name_",
}  # documented by those who made them
NO_OTHER_WAY = {  # of alembic, threading, atexit, sys, asyncio, subprocess and verl
    "_upgrade_revs", "_shutdown", "_run_exitfuncs", "_getframe", "_get_running_loop", "_execute_child",
    "_select_fsdp2_wrap_targets",
}  # fmt: skip
BUILDERS = {"client.channel", "streams.connect", "sql_engine.create_engine", "Database.opened"}


@dataclass(frozen=True, slots=True)
class Fault:
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a part."""

    path: Path
    tree: ast.Module = field(repr=False)
    lines: list[str] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "Source":
        return cls.of(path, path.read_text())

    @classmethod
    def of(cls, path: Path, text: str) -> "Source":
        return cls(path, ast.parse(text), text.splitlines())

    def fault(self, node: ast.AST, text: str) -> Fault:
        return Fault(self.path, getattr(node, "lineno", 1), text)


Rule = Callable[[Source], Iterator[Fault]]


def dataclasses_are_frozen_and_slotted(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.ClassDef):
        for decorator in node.decorator_list:
            if _name(decorator) not in ("dataclass", "dataclasses.dataclass"):
                continue
            options = {word.arg for word in getattr(decorator, "keywords", []) if _is_true(word.value)}
            if "slots" not in options:
                yield source.fault(decorator, f"dataclass {node.name} has no slots=True")
            reason = "#" in source.lines[decorator.lineno - 1] or "mutable" in (ast.get_docstring(node) or "").lower()
            if "frozen" not in options and not reason:
                yield source.fault(decorator, f"dataclass {node.name} is mutable, and nothing beside it says why")


def doubles_are_in_tests(source: Source) -> Iterator[Fault]:
    if "ratchet_testing" in source.path.parts:  # a library of tests: no service has it
        return
    for node in _all(source, ast.ClassDef):
        if DOUBLE.fullmatch(node.name):
            yield source.fault(node, f"{node.name} is a test double: it belongs to the part's tests")


def exceptions_are_errors(source: Source) -> Iterator[Fault]:
    inner = {one for node in _all(source, ast.ExceptHandler) for one in ast.walk(node) if one is not node}
    for node in _all(source, ast.ExceptHandler):
        if node.name not in (None, "error") and node not in inner:
            yield source.fault(node, f"except ... as {node.name}: it is called error")


def log_events_are_dotted(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.Call):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS and _is_log(node.func.value)):
            continue
        event = node.args[0] if node.args else None
        if not (isinstance(event, ast.Constant) and EVENT.fullmatch(str(event.value))):
            yield source.fault(node, "a log event is a dotted text: run.submitted")
        for word in node.keywords:
            if word.arg in CAUSES:
                yield source.fault(node, f"{word.arg}= is not a log key: the cause is reason=")
            if word.arg in OF_EACH_LINE:
                yield source.fault(node, f"{word.arg}= is the line's own, and overwritten: use another key")


def nothing_private_is_used_elsewhere(source: Source) -> Iterator[Fault]:
    own = {node.name for node in _all(source, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)}
    own |= {node.attr for node in _all(source, ast.Attribute) if _name(node.value) in ("self", "cls")}
    own |= {node.id for node in _all(source, ast.Name) if isinstance(node.ctx, ast.Store)}
    for node in _all(source, ast.Attribute):
        if (
            _is_private(node.attr)
            and _name(node.value) not in ("self", "cls")
            and node.attr not in own | NOT_PRIVATE | NO_OTHER_WAY
        ):
            yield source.fault(node, f"{node.attr} is private to another file")
    for node in _all(source, ast.ImportFrom):
        for name in node.names:
            if _is_private(name.name) and (node.module or "").split(".")[0] in _parts(source.path):
                yield source.fault(node, f"{name.name} is private to {node.module}")


def words_are_plain(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.arg, ast.Name, ast.keyword, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        name = getattr(node, "arg", None) or getattr(node, "id", None) or getattr(node, "name", "")
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            continue
        for word in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name or "").lower().split("_"):
            if word in WORDS:
                yield source.fault(node, f"{name}: {word} is not one of our words")


def states_are_lower_case_texts(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.ClassDef):
        if node.name != "State":
            continue
        if [_name(base) for base in node.bases] not in (["StrEnum"], ["enum.StrEnum"]):
            yield source.fault(node, "State is a StrEnum")
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                member = _name(statement.targets[0])
                if statement.value.value != member.lower():
                    yield source.fault(statement, f"{member} is written {member.lower()!r}")


def times_end_in_time(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.ClassDef):
        if not any(_name(decorator) == "dataclass" for decorator in node.decorator_list):
            continue
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation).split(" | ")[0] == "datetime":
                name = _name(statement.target)
                if not name.endswith("_time") and name not in ("until", "time"):
                    yield source.fault(statement, f"{name}: a time's name ends in _time")


def pages_are_pages(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.AsyncFunctionDef):
        names = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
        pages = {"page_size", "page_token"} <= names or {"limit", "after"} <= names
        if pages and (node.name == "list" or node.name.startswith("list_")):
            yield source.fault(node, f"{node.name}: one page of a list is page(...)")


def converters_are_called_by_their_module(source: Source) -> Iterator[Fault]:
    if "convert" in source.path.parts:
        return
    for node in _all(source, ast.ImportFrom):
        if re.match(r"\w+_service\.convert", node.module or "") and any("_proto" in name.name for name in node.names):
            yield source.fault(node, "from x_service import convert, then convert.run_to_proto(...)")


def servicers_take_a_context(source: Source) -> Iterator[Fault]:
    for node in _all(source, ast.AsyncFunctionDef):
        for argument in node.args.args:
            kind = ast.unparse(argument.annotation) if argument.annotation else ""
            if argument.arg == "context" and node.name[0].isupper() and kind not in ("Context", "server.Context"):
                yield source.fault(node, f"{node.name}: its context is a ratchet_kit.server.Context")


def only_main_builds(source: Source) -> Iterator[Fault]:
    if source.path.name in ("main.py", "__main__.py") or "job" in source.path.parts:  # jobs are processes of their own
        return
    for node in _all(source, ast.Call):
        if _name(node.func) in BUILDERS:
            yield source.fault(node, f"{_name(node.func)}: only main builds")


DIALECT: tuple[Rule, ...] = (
    dataclasses_are_frozen_and_slotted,
    doubles_are_in_tests,
    exceptions_are_errors,
    log_events_are_dotted,
    nothing_private_is_used_elsewhere,
    words_are_plain,
    states_are_lower_case_texts,
    times_end_in_time,
)
"""For every file that people write."""
SERVICE: tuple[Rule, ...] = (
    pages_are_pages,
    converters_are_called_by_their_module,
    servicers_take_a_context,
    only_main_builds,
)
"""For the files of services, too."""


def rooms(service: Path) -> Iterator[Fault]:
    """The rooms and files that every service has."""
    source = service / "src" / f"{service.name}_service"
    wanted = ["main.py", "settings.py", "servicer.py", "py.typed", "adapters", "domain"]
    for path in [*(source / name for name in wanted), service / "tests" / "unit", service / "tests" / "integration"]:
        if not path.exists():
            yield Fault(path, 1, "is missing")
    if not (source / "convert.py").exists() and not (source / "convert").exists():
        yield Fault(source / "convert.py", 1, "is missing")
    if not list((source / "domain").rglob("ports.py")):
        yield Fault(source / "domain" / "ports.py", 1, "is missing: what the domain needs from outside")
    for file in source.rglob("*.py"):
        if file.name in ("utils.py", "helpers.py", "common.py", "misc.py"):
            yield Fault(file, 1, "a file is named for what is in it")


def composition(service: Path) -> Iterator[Fault]:
    """main.py: provision(settings, *, ports...), run = partial(server.run, ...), main(), under the plain name."""
    source = Source.read(service / "src" / f"{service.name}_service" / "main.py")
    functions = {
        node.name: node for node in source.tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assigned = {_name(node.targets[0]) for node in source.tree.body if isinstance(node, ast.Assign)}
    for name in ("provision", "run", "main"):
        if name not in functions and not (name == "run" and name in assigned):
            yield Fault(source.path, 1, f"{name} is missing")
    if provision := functions.get("provision"):
        if "asynccontextmanager" not in [_name(decorator) for decorator in provision.decorator_list]:
            yield source.fault(provision, "provision is an asynccontextmanager")
        if not provision.args.kwonlyargs:
            yield source.fault(provision, "provision takes ports that tests hand in, by name")
    if (run := functions.get("run")) and [argument.arg for argument in run.args.kwonlyargs] != ["on_ready", "stop"]:
        yield source.fault(run, "run(settings, *, on_ready=None, stop=None)")
    constants = {
        _name(node.targets[0]): node.value.value
        for node in source.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    launches = [node for node in _all(source, ast.Call) if _name(node.func).split(".")[-1] == "launch"]
    if not launches:
        yield Fault(source.path, 1, "main is server.launch(SERVICE, Settings.read(), run)")
    for node in launches:
        given = node.args[0]
        found = given.value if isinstance(given, ast.Constant) else constants.get(_name(given))
        if found != service.name:
            yield source.fault(node, f"the service is called {service.name!r}, not {found!r}")


def tests_mirror_the_source(part: Path) -> Iterator[Fault]:
    """tests/unit/test_<module>.py, or test_<module>_<topic>.py, is about a file or a folder of the source."""
    modules = {path.stem for path in (part / "src").rglob("*") if path.suffix == ".py" or path.is_dir()}
    for test in sorted((part / "tests" / "unit").rglob("test_*.py")):
        words = test.stem.split("_")[1:]
        if not any("_".join(words[:count]) in modules for count in range(1, len(words) + 1)):
            yield Fault(test, 1, f"there is no {'_'.join(words)}.py that it is about")


def _all(source: Source, *kinds: type) -> Iterator[Any]:
    return (node for node in ast.walk(source.tree) if isinstance(node, kinds))


def _name(node: ast.AST) -> str:
    """The dotted name of an expression: "self", "client.channel"; of a call, of what is called."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return getattr(node, "id", "")


def _is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_log(node: ast.AST) -> bool:
    return _name(node).split(".")[-1] in ("log", "_log")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _parts(path: Path) -> set[str]:
    return {part for part in path.parts if part.endswith("_service") or part.startswith("ratchet_")}
