"""The cage runs by a bare interpreter: it may import the standard library and itself. Attacks: the library alone."""

import ast
import sys
from pathlib import Path

import pytest

import sandbox_service

SOURCE = Path(sandbox_service.__file__).parent
CAGE = "sandbox_service.cage"


def _imports(path: Path) -> set[str]:
    """The modules that are imported, whole names."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {"." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", list((SOURCE / "cage").rglob("*.py")), ids=lambda path: path.stem)
def test_the_cage_imports_itself_and_the_standard_library(path: Path) -> None:
    others = {name for name in _imports(path) if name != CAGE and not name.startswith(f"{CAGE}.")}
    assert {name.partition(".")[0] for name in others} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", [SOURCE / "__init__.py", *(SOURCE / "cage").rglob("__init__.py")], ids=str)
def test_a_package_imports_nothing_by_itself(path: Path) -> None:
    assert not _imports(path)


@pytest.mark.parametrize("path", list((SOURCE / "attacks").glob("*.py")), ids=lambda path: path.stem)
def test_attacks_import_nothing_of_ours(path: Path) -> None:
    assert not {name for name in _imports(path) if name.startswith(("ratchet", "sandbox", "."))}
