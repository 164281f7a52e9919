"""What reading test code shows: what it wants of the program, what it runs, and that it compares something.

Names are those that the compiler's symbol tables hold, statements are looked at, and no expression is. So the cost is
linear in the code, and literals cost next to nothing.
"""

import ast
import builtins
import hashlib
import re
import symtable
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet_kit import syntax
from sandbox_service.cage.test_code import comparisons
from sandbox_service.domain import asserted
from sandbox_service.domain.grading import clip
from sandbox_service.domain.program import Asserted

_PROGRAM_MODULES = frozenset({"solution", "program"})
# What may name or run anything: the tester will see.
_DYNAMIC = frozenset({"exec", "eval", "compile", "__import__", "importlib", "runpy", "globals", "locals", "vars"})
_ATTRIBUTE = re.compile(r"\b(\w+)\.(\w+)")
_LARGE = 1 << 15  # characters: a fifth of a second
_MOST_KEPT = 4096
_KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__class__"}

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class TestCode:
    """`calls_check`: the `check` that it defines is its own to call. `names`: what it uses of the program beside its
    entry point. `modules`: of the library, what it uses without an import. `unknown`: a name that it uses and that
    nothing defines. `asserted`: see CheckTest."""

    __test__ = False  # not for pytest

    calls_check: bool
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    unknown: str = ""
    asserted: tuple[Asserted, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Test code, and what it is read with. `names`: what the problem declares."""

    code: str
    entry_point: str
    names: tuple[str, ...] = ()
    shared: bool = False

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(repr((self.code, self.entry_point, self.names, self.shared)).encode()).digest()


class Unread(Exception):
    """Long test code: to be read aside, and kept, before it's read here."""

    def __init__(self, texts: list[Text]) -> None:
        super().__init__(f"{len(texts)} texts of test code")
        self.texts = texts


def read(code: str, entry_point: str, names: tuple[str, ...], shared: bool) -> TestCode:
    """`names`: what the problem declares. Raises ValueError for code that is no Python, runs nothing, uses nothing of
    the program, or compares nothing; Unread for long code that isn't kept."""
    text = Text(code, entry_point, names, shared)
    found = _kept.get(text.digest)
    if found is None:
        if len(code) > _LARGE:
            raise Unread([text])
        found = read_whole(text)
        keep(text, found)
    if isinstance(found, str):
        raise ValueError(found)
    return found


def read_whole(text: Text) -> TestCode | str:
    """What there is to keep of it: what it shows, or what's wrong with it. Takes seconds for a megabyte."""
    try:
        return _read(text.code, text.entry_point, text.names, text.shared)
    except ValueError as error:
        return str(error)


def keep(text: Text, found: TestCode | str) -> None:
    _kept[text.digest] = found
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)


# A problem's tests come with each of its programs, and those of a benchmark with each evaluation.
_kept: OrderedDict[bytes, TestCode | str] = OrderedDict()


def _read(code: str, entry_point: str, names: tuple[str, ...], shared: bool) -> TestCode:
    try:
        tree, table = syntax.parse(code), syntax.symbols(code)
        _refuse_stray_returns(tree)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"is not valid Python: {clip(str(error) or type(error).__name__)}") from None
    return _Reader(code, tree, table, entry_point, names, shared).read()


def _refuse_stray_returns(tree: ast.Module) -> None:
    if any(isinstance(statement, ast.Return) for statement in comparisons.walk(tree.body, scopes=False)):
        raise SyntaxError("'return' outside function")


class _Reader:
    def __init__(
        self,
        code: str,
        tree: ast.Module,
        table: symtable.SymbolTable,
        entry_point: str,
        names: tuple[str, ...],
        shared: bool,
    ) -> None:
        self._code, self._tree, self._table, self._shared = code, tree, table, shared
        self._entry_point, self._entry = entry_point, entry_point.partition(".")[0]
        self._top = list(comparisons.walk(tree.body, scopes=False))
        self._docstrings = [text for node in (tree, *self._top) if (text := _docstring(node))]
        self._definitions: dict[str, list[_Definition]] = {}
        for statement in self._top:
            if isinstance(statement, _Definition):
                self._definitions.setdefault(statement.name, []).append(statement)
        self._decorated = {name for name, (*_, last) in self._definitions.items() if last.decorator_list}
        self._fixtures = {
            name for one in self._top if isinstance(one, _Definition) for name in map(_given_name, one.decorator_list)
        }
        self._scopes: dict[str, list[symtable.SymbolTable]] = {}
        for scope in table.get_children():
            self._scopes.setdefault(scope.get_name() if scope.get_name() in self._definitions else "", []).append(scope)
        self._at_top = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
        for scope in self._scopes.pop("", []):  # lambdas and comprehensions
            self._at_top |= _globals_of(scope)
        self._imports = [one for one in comparisons.walk(tree.body, scopes=True) if _is_of_the_program(one)]
        imported = [alias.name for one in self._imports if isinstance(one, ast.ImportFrom) for alias in one.names]
        modules = {
            alias.asname or alias.name
            for one in self._imports
            if isinstance(one, ast.Import)
            for alias in one.names
            if alias.name in _PROGRAM_MODULES
        }
        attributes = [name for module, name in _ATTRIBUTE.findall(code) if module in modules] if modules else []
        self._names = tuple(dict.fromkeys([*names, *imported, *attributes]))
        self._names = tuple(name for name in self._names if name not in ("*", self._entry))

    def read(self) -> TestCode:
        if all(map(_is_text, self._top)) and not self._examples():
            raise ValueError("holds no test")
        calls_check = self._calls_check()
        collected = self._collected(calls_check)
        collected |= self._decorated  # fixtures, and what a decorator registers
        reached, used = self._reach(collected)
        free = bool(used & _DYNAMIC)
        examples = "doctest" in used or not (collected or any(map(comparisons.compares, self._top)))
        if not free and not (self._examples() and examples):
            self._require_comparison(collected, reached, used)
        nobodys = [] if self._shared or free or self._has_foreign_star() else self._nobodys(used)
        modules = tuple(name for name in nobodys if name in sys.stdlib_module_names)
        unknown = next((name for name in nobodys if name not in sys.stdlib_module_names), "")
        return TestCode(calls_check, self._names, modules, unknown, self._asserted())

    def _asserted(self) -> tuple[Asserted, ...]:
        if self._shared or len(self._code) > _LARGE:
            return ()
        return asserted.read(self._tree, self._entry_point)

    def _examples(self) -> bool:
        return any(">>>" in text for text in self._docstrings)

    def _calls_check(self) -> bool:
        """Whether their `check` is their own to call: other tests use it, or it takes more than the program."""
        _, used = self._reach(self._collected(calls_check=True) | self._decorated)
        return "check" in used or not all(map(_takes_one, self._definitions.get("check", ())[-1:]))

    def _collected(self, calls_check: bool) -> set[str]:
        """The definitions that a test runner would run."""
        found = set()
        for name, (*_, last) in self._definitions.items():
            if isinstance(last, ast.ClassDef):
                if self._is_case(last) or (name.startswith("Test") and _has_tests(last)):
                    found.add(name)
            elif name == "check" and not calls_check:
                found.add(name)
            elif name.startswith("test"):
                needed = [
                    arg
                    for arg in _needed(last)
                    if arg not in self._decorated | self._fixtures | {"candidate"} | comparisons.FIXTURES
                ]
                needed = [] if last.decorator_list else needed
                if not needed:
                    found.add(name)
                elif not self._is_mentioned(name):
                    raise ValueError(
                        f"{name} takes {needed[0]!r}, which is neither a fixture of the test code nor a parameter"
                    )
        return found

    def _is_case(self, node: ast.ClassDef, depth: int = 0) -> bool:
        for base in node.bases:
            name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
            if name.endswith("TestCase"):
                return True
            mine = self._definitions.get(name, ()) if depth < 20 else ()
            if any(self._is_case(one, depth + 1) for one in mine if isinstance(one, ast.ClassDef) and one is not node):
                return True
        return False

    def _is_mentioned(self, name: str) -> bool:
        scopes = [scope for scopes in self._scopes.values() for scope in scopes]
        return name in self._at_top or any(name in _globals_of(scope) for scope in scopes)

    def _reach(self, collected: set[str]) -> tuple[set[str], set[str]]:
        """The definitions that run, as far as names lead to them, and the names that these and the file itself use."""
        used, reached = set(self._at_top), set[str]()
        waiting = collected | (used & self._definitions.keys())
        while waiting:
            name = waiting.pop()
            reached.add(name)
            for scope in self._scopes.get(name, ()):
                used |= _globals_of(scope)
            waiting |= (used & self._definitions.keys()) - reached
        return reached, used

    def _require_comparison(self, collected: set[str], reached: set[str], used: set[str]) -> None:
        own = [one for one in self._top if not isinstance(one, _Definition | ast.Import | ast.ImportFrom)]
        if not reached and all(isinstance(one, ast.Assign | ast.AnnAssign) or _is_text(one) for one in own):
            raise ValueError("only defines things, and runs none of them: name a function test_... or check")
        ours = {self._entry, "candidate", *self._names, *_PROGRAM_MODULES}
        if not (used & ours or self._imports or self._takes_the_program(collected)):
            raise ValueError(f"uses nothing of the program: neither {self._entry!r} nor 'candidate'")
        inside = [one for name in reached for node in self._definitions[name] for one in _statements(node)]
        if not any(comparisons.compares(one) for one in (*self._top, *inside)):
            raise ValueError("compares nothing with the program's answers: it has no assert or similar check")

    def _takes_the_program(self, collected: set[str]) -> bool:
        for name in collected:
            for scope in self._scopes.get(name, ()):
                if isinstance(scope, symtable.Function):
                    given = scope.get_parameters()[: 1 if name == "check" else None]
                    given = tuple(one for one in given if name == "check" or one == "candidate")
                    if any(scope.lookup(one).is_referenced() or scope.lookup(one).is_free() for one in given):
                        return True
                    if any(_uses(inner, one) for one in given for inner in scope.get_children()):
                        return True
        return False

    def _has_foreign_star(self) -> bool:
        stars = [one for one in self._top if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"]
        return any(one not in self._imports for one in stars)

    def _nobodys(self, used: set[str]) -> list[str]:
        """The names that are used, and neither the code's, nor the program's, nor builtins."""
        symbols = self._table.get_symbols()
        bound = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        for scope in self._scopes.values():
            bound |= {name for one in scope for name in _bound_as_globals(one)}
        for hook in self._definitions.get("setup_module", ()):
            bound |= set(_set_on_module(hook))
        return sorted(used - bound - _KNOWN - {self._entry, "candidate", *self._names})


def _globals_of(scope: symtable.SymbolTable) -> set[str]:
    """The names that a scope and those in it look for outside."""
    found = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    for inner in scope.get_children():
        found |= _globals_of(inner)
    return found


def _bound_as_globals(scope: symtable.SymbolTable) -> set[str]:
    found = {
        symbol.get_name() for symbol in scope.get_symbols() if symbol.is_declared_global() and symbol.is_assigned()
    }
    for inner in scope.get_children():
        found |= _bound_as_globals(inner)
    return found


def _set_on_module(hook: _Definition) -> Iterator[str]:
    """`module.base = 1` in `def setup_module(module)`, which pytest gives the module."""
    given = "" if isinstance(hook, ast.ClassDef) or not hook.args.args else hook.args.args[0].arg
    for one in _statements(hook):
        for target in getattr(one, "targets", ()):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == given:
                yield target.attr


def _uses(scope: symtable.SymbolTable, name: str) -> bool:
    """Whether a scope below a function uses a name of it."""
    here = any(one.get_name() == name and one.is_free() for one in scope.get_symbols())
    return here or any(_uses(inner, name) for inner in scope.get_children())


def _statements(node: _Definition) -> Iterator[ast.stmt]:
    yield from comparisons.walk(node.body, scopes=True)


def _is_of_the_program(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module in _PROGRAM_MODULES
    return isinstance(statement, ast.Import) and any(alias.name in _PROGRAM_MODULES for alias in statement.names)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _docstring(node: ast.AST) -> str:
    if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.get_docstring(node, clean=False) or ""
    return ""


def _given_name(decorator: ast.expr) -> str:
    """Of `@pytest.fixture(name="n")`."""
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    named = next((one.value for one in keywords if one.arg == "name"), None)
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else ""


def _has_tests(node: ast.ClassDef) -> bool:
    """Or bases, which may have some, or classes in it that have."""
    functions = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    within = (one for one in node.body if isinstance(one, ast.ClassDef) and one.name.startswith("Test"))
    return bool(node.bases) or any(one.name.startswith("test") for one in functions) or any(map(_has_tests, within))


def _takes_one(node: _Definition) -> bool:
    """Whether it may be called with one argument."""
    if isinstance(node, ast.ClassDef):
        return False
    has = bool(node.args.posonlyargs or node.args.args)
    needed = _needed(node)
    return has and len(needed) <= 1 and not any(arg.arg in needed for arg in node.args.kwonlyargs)


def _needed(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The parameters that it must be given."""
    plain = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    required = plain[: len(plain) - len(node.args.defaults)]
    keywords = [
        arg.arg for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if not default
    ]
    return [*required, *keywords]
