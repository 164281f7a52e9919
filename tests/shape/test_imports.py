"""What tests of one part import of ours is there: some run only where verl, vLLM or Ray is, and nothing types them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "libs/protos/src", *ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src")]
OURS = {package.name: package.parent for source in SOURCES for package in source.iterdir() if package.is_dir()}


@cache
def names(module: str) -> frozenset[str] | None:
    """Those that a module of ours has; None where there is no such module."""
    base = OURS[module.partition(".")[0]].joinpath(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    below = {one.stem for one in base.iterdir()} if base.is_dir() else set()
    if not file.is_file():
        return frozenset(below) if base.is_dir() else None
    return frozenset(below | {name for one in ast.parse(file.read_text()).body for name in bound(one)})


def bound(node: ast.AST) -> Iterator[str]:
    """Not within functions and classes."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case _:
            yield from (name for below in ast.iter_child_nodes(node) for name in bound(below))


def imported(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (module := node.module or "").split(".")[0] in OURS:
            yield from ((node.lineno, module, alias.name) for alias in node.names)


def test_what_tests_import_is_there() -> None:
    files = [*ROOT.glob("libs/*/tests/**/*.py"), *ROOT.glob("services/*/tests/**/*.py")]
    assert len(files) > 500
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {module} has no {name}"
        for file in files
        for line, module, name in imported(ast.parse(file.read_text()))
        if not module.endswith(("_pb2", "_pb2_grpc")) and name not in (names(module) or ())
    ]
    assert not wrong, "\n" + "\n".join(wrong)
