"""The tools' program: whatever a model calls has a result that the door takes."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

import ratchet_episodes


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As it lies in the workspace, beside those that it imports."""
    monkeypatch.syspath_prepend(str(Path(ratchet_episodes.__file__).parent))
    return importlib.import_module("tools_program")


def test_names_of_files_that_are_no_utf_8(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.txt").write_text("found")
    for name, arguments in (
        ("search", {"pattern": "found", "path": str(tmp_path)}),
        ("read", {"path": str(tmp_path / "other\udce9.txt")}),
        ("bash", {"command": f"cat '{tmp_path}'/*"}),
        ("bash", {"command": "echo \ud800"}),
    ):
        program.used(name, json.dumps(arguments)).encode()  # the door refuses halves of surrogate pairs


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "[1]", "null", '{"path"', "[" * 100_000, '{"x": 1}'),
        *('{"path": 1e999}', '{"path": "a\\u0000"}', '{"path": 1}', '{"path": 1, "content": "x"}'),
        *('{"path": 1, "pattern": "x"}', '{"path": 1, "old": "x", "new": "y"}'),
    ],
)
def test_arguments_of_a_model_that_are_none(program: ModuleType, arguments: str) -> None:
    for name in ("read", "search", "write", "patch", "bash"):
        assert program.used(name, arguments).startswith("error: ")
