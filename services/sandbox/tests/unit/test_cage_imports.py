"""The cage runs by a bare interpreter: it may import the standard library and itself. Attacks: the library alone."""

import ast
import sys
from pathlib import Path

import pytest

import sandbox_service

SOURCE = Path(sandbox_service.__file__).parent
CAGE = {path.stem for path in (SOURCE / "cage").iterdir()}


def _imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.partition(".")[0] for name in plain} | {
        "." * node.level + (node.module or "").partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize("path", list((SOURCE / "cage").rglob("*.py")), ids=lambda path: path.stem)
def test_the_cage_imports_itself_and_the_standard_library(path: Path) -> None:
    assert _imports(path) <= sys.stdlib_module_names | CAGE


@pytest.mark.parametrize("path", list((SOURCE / "attacks").glob("*.py")), ids=lambda path: path.stem)
def test_attacks_import_nothing_of_ours(path: Path) -> None:
    assert not {name for name in _imports(path) if name.startswith(("ratchet", "sandbox", "."))}


def test_no_module_of_the_cage_has_a_name_of_the_standard_library() -> None:
    assert not (CAGE - {"__init__", "__pycache__"}) & sys.stdlib_module_names
