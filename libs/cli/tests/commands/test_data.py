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


def test_of_a_platform_that_is_away_nothing_is_known(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", "http://127.0.0.1:1")
    listed = data("list")
    assert ("Only this machine" in listed.stderr, listed.stdout) == (True, "")
    assert data("fetch", "humaneval", "--unchecked").returncode == 2


def test_what_cannot_be_added_is_refused_before_anything_is_sent(data: Any, tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text('{"words": "Add.", "tests": []}\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.jsonl").write_text("\n")
    (tmp_path / "数据.jsonl").write_text("{}\n")
    for arguments, code, said in (
        (["set.jsonl"], 1, "no column is the prompt: map one of words, tests, such as prompt=words"),
        (["set.jsonl", "--map", "prompt"], 2, "--map prompt: write FIELD=COLUMN"),
        (["set.jsonl", "--map", "prompt=words"], 1, "set.jsonl line 1: tests: must be there"),
        (["set.jsonl", "--name", "humaneval"], 2, "humaneval is the name of a public benchmark"),
        (["nothing.jsonl"], 2, "there is no file or folder"),
        (["none.jsonl"], 1, "none.jsonl holds no rows"),
        (["数据.jsonl"], 2, "gives the data set no name of letters and digits: use --name"),
        (["empty"], 2, "holds no file that ends in .jsonl"),
    ):
        refused = data("add", str(tmp_path / arguments[0]), *arguments[1:])
        assert (refused.returncode, said in " ".join(refused.stderr.split())) == (code, True), refused.stderr
    (tmp_path / "tasks/one").mkdir(parents=True)
    (tmp_path / "tasks/one/task.toml").write_text("")
    (tmp_path / "tasks/two").mkdir()
    (tmp_path / "tasks/two/instruction.md").write_text("Do it.")
    wrong = data("add", str(tmp_path / "tasks"))
    for said in ("/tasks/one/instruction.md", "/tasks/two/task.toml"):
        assert f"{tmp_path}{said} can't be read: No such file" in " ".join(wrong.stderr.split()), wrong.stderr
    mapped = data("add", str(tmp_path / "tasks"), "--map", "prompt=x")
    assert (mapped.returncode, "task folders have no columns" in mapped.stderr) == (2, True)
    assert "is not a version of a data set: write mine@1" in data("delete", "mine").stderr
    assert "must name a data set" in data("show", "No Name").stderr
