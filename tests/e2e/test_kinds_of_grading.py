"""Each problem of a user's set is graded apart from the program where its reference passes so, and else beside it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .judging import Judges, judges

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    with judges(tmp_path_factory.mktemp("judges"), tmp_path_factory.mktemp("data")) as running:
        yield running


def test_a_problem_is_graded_as_its_reference_needs(judging: Judges, tmp_path: Path) -> None:
    now = "import time\ndef f():\n    return int(time.time())\n"
    patched = "from unittest.mock import patch\nwith patch('time.time', return_value=7):\n    assert f() == 7\n"
    problems = [
        {"id": "apart", "tests": [{"check": "assert f() > 7"}], "references": [now]},
        {"id": "says it shares", "tests": [{"check": "assert f() > 7", "shared": True}], "references": [now]},
        {"id": "must share", "tests": [{"check": patched}], "references": [now]},
    ]
    path, samples = tmp_path / "set.jsonl", tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps({"prompt": "The time.", "entry_point": "f"} | one) + "\n" for one in problems))
    samples.write_text("".join(json.dumps({"task_id": one["id"], "solution": now}) + "\n" for one in problems))
    done = judging.ratchet("evaluate", "--samples", str(samples), "--benchmark", str(path), "--json")
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    [score] = evaluation["benchmarks"]
    assert sorted(score["shared_problem_ids"]) == ["must share", "says it shares"]
    assert (score["forgeable_passes"], evaluation["verdicts"]) == ("2", {"PASSED": "3"})
    assert [part["name"] for part in score["slices"]] == ["shared grading", "strict grading"]
    shown = judging.ratchet("evaluations", "show", evaluation["id"]).stdout
    assert "2 of 3 problems are graded in the program's process; 2 passes of theirs can be forged" in shown
