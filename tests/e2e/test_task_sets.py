"""Task folders as a data set: added, checked, written back; and refused where problems are wanted."""

import json
import shutil
from pathlib import Path

import pytest

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples/tasks"


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in files}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """The examples, and one whose tests run the agent's module in their process."""
    shutil.copytree(EXAMPLES, tmp_path / "tasks")
    shared = tmp_path / "tasks/shared"
    shutil.copytree(EXAMPLES / "csv-to-json", shared)
    toml = (shared / "task.toml").read_text()
    toml = toml.replace('judge = "files"', 'judge = "process"').replace("ratchet/csv-to-json", "shared")
    (shared / "task.toml").write_text(toml)
    (shared / "solution/solve.sh").write_text("true\n")
    return tmp_path / "tasks"


def test_task_folders_are_versions_of_a_data_set(platform: Platform, tasks: Path, tmp_path: Path) -> None:
    added = platform.ratchet("data", "add", str(tasks), "--json")
    assert added.returncode == 0, added.stderr
    made = json.loads(added.stdout)
    assert (made["name"], made["number"], made["card"]["folders"]) == ("tasks", 1, True)
    assert [(split["name"], split["rows"]) for split in made["splits"]] == [("train", 5)]
    assert made["splits"][0]["notices"] == ["1 task with tests that can be forged: shared"]
    assert json.loads(platform.ratchet("data", "add", str(tasks), "--json").stdout)["number"] == 1

    (listed,) = [
        one for one in json.loads(platform.ratchet("data", "list", "--json").stdout) if one["name"] == "tasks@1"
    ]
    assert (listed["holds"], listed["rows"]) == ("task folders", "train 5")
    shown = platform.ratchet("data", "show", "tasks@1").stdout
    assert "process, forgeable" in shown
    written = platform.ratchet("data", "download", "tasks@1", "--to", str(tmp_path / "back"))
    assert written.returncode == 0, written.stderr
    assert contents(tmp_path / "back/tasks-1-train") == contents(tasks)
    again = platform.ratchet("data", "download", "tasks@1", "--to", str(tmp_path / "back"))
    assert (again.returncode, "is there already" in again.stderr) == (2, True), again.stderr

    verified = platform.ratchet("tasks", "verify", "tasks@1", "--json")
    if "task folders need a node at L2" in verified.stdout:
        pytest.skip("this machine has no namespaces")
    assert verified.returncode == 1, verified.stderr
    found = {one["path"]: one["holds"] for one in json.loads(verified.stdout)["tasks"]}
    assert len(found) == 5
    assert [path for path, holds in found.items() if not holds] == ["tasks@1/train/shared"]
    references = json.loads(platform.ratchet("data", "show", "tasks@1", "--json").stdout)["splits"][0]["references"]
    assert (references["problems"], references["strict"], references.get("shared", 0)) == (5, 4, 0)
    (unsound,) = json.loads(platform.ratchet("data", "findings", "tasks@1", "--kind", "unsound", "--json").stdout)
    assert (unsound["problem"], "the solution does not pass" in unsound["detail"]) == ("shared", True)


def test_wrong_folders_and_wrong_uses_are_refused(platform: Platform, tasks: Path) -> None:
    (tasks / "count-words/tests/test.sh").unlink()
    refused = platform.ratchet("data", "add", str(tasks), "--name", "wrong")
    assert (refused.returncode, f"{tasks}/count-words/tests/test.sh is not there" in refused.stderr) == (2, True)
    assert "there is no data set" in platform.ratchet("data", "show", "wrong").stderr
    mapped = platform.ratchet("data", "add", str(EXAMPLES), "--map", "prompt=x")
    assert (mapped.returncode, "--map goes with tables" in mapped.stderr) == (2, True), mapped.stderr

    assert platform.ratchet("data", "add", str(EXAMPLES), "--name", "examples").returncode == 0
    for arguments in (
        ("train", "--model", "starter", "--problems", "examples/train", "--steps", "1"),
        ("train", "--model", "starter", "--algorithm", "dpo", "--set", "pairs=examples/train"),
        ("evaluate", "--model", "starter", "--benchmark", "examples"),
        ("benchmarks", "verify", "examples"),
        ("data", "split", "examples/train", "--into", "test=0.5"),
    ):
        used = platform.ratchet(*arguments)
        assert used.returncode != 0, arguments
        assert "holds task folders, which programs work on" in used.stderr, used.stderr
    (tasks / "none").mkdir()
    problems = platform.ratchet("tasks", "verify", str(tasks / "none"))
    assert (problems.returncode, "holds no task folder" in problems.stderr) == (2, True), problems.stderr
