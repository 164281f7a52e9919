"""`ratchet data`: what is kept, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

ROW = {
    "task_id": "T/0",
    "prompt": "def f():\n",
    "entry_point": "f",
    "canonical_solution": "    return 1\n",
    "test": "x",
}


@pytest.fixture
def data(ratchet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "data"))
    (tmp_path / "rows.json").write_text(json.dumps([ROW]))
    return lambda *arguments: ratchet("data", *arguments)


def test_a_file_of_known_data_only(data: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "rows.json")
    refused = data("fetch", "humaneval", "--from", file)
    assert refused.returncode == 1
    assert "no published state of humaneval" in refused.stderr
    taken = data("fetch", "humaneval", "--from", file, "--unchecked")
    assert taken.returncode == 0
    assert taken.stdout.startswith("humaneval is here: version ")
    version = taken.stdout.split("version ")[1].partition(",")[0]
    (listed,) = json.loads(data("list", "--json").stdout)
    assert (listed["name"], listed["licence"]) == (f"humaneval@{version}", "MIT")


def test_nothing_here_says_how_to_begin(data: Any) -> None:
    assert "ratchet data fetch NAME" in data("list").stdout
    assert "use one of humaneval, " in data("fetch", "nothing").stderr
    assert data("fetch", "humaneval", "--unchecked").returncode == 2
