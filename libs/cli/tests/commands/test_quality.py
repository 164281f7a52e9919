"""`ratchet quality` against an HTTP server in the gateway's place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ratchet_problems import load
from ratchet_testing.gateway import ScriptedGateway

PROBLEM = load("basics")[0]


def sample(index: int, completion: str, verdict: str = "PASSED", problem: str = PROBLEM.id) -> dict[str, Any]:
    return {"problem_id": problem, "index": index, "completion": completion, "verdict": f"VERDICT_{verdict}"}


@pytest.fixture
def evaluation(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    spec = {"model": {"model": "m"}, "problems": {"name": "basics"}}
    gateway.answers({"evaluation": {"id": "e1", "state": "STATE_SUCCEEDED", "spec": spec}})
    return gateway


def test_passing_samples_are_scored_by_problem(ratchet: Any, evaluation: ScriptedGateway) -> None:
    plain = PROBLEM.references[0]
    evaluation.answers(
        {
            "samples": [
                sample(0, plain),
                sample(1, f"```python\nimport os\n{plain}```"),
                sample(2, "def f(:", "COMPILE_ERROR"),
                sample(3, plain, problem="of another set"),
            ]
        }
    )
    result = ratchet("quality", "e1", "--component", "style", "--component", "length", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [one["index"] for one in found["samples"]] == [0, 1]
    assert found["samples"][0]["scores"]["style"]["value"] == 1.0
    assert found["samples"][1]["scores"]["style"]["value"] < 1.0
    (row,) = found["rows"]
    assert (row["name"], row["samples"], list(row["components"])) == ("basics", 2, ["style", "length"])


def test_the_table_says_where_it_is_lowest(ratchet: Any, evaluation: ScriptedGateway) -> None:
    evaluation.answers({"samples": [sample(0, PROBLEM.references[0]), sample(1, "def f(:", "COMPILE_ERROR")]})
    result = ratchet("quality", "e1", "--component", "complexity", "--all", "--samples", "2")
    assert result.returncode == 0, result.stderr
    line = result.stdout.splitlines()[1]
    assert line.split()[:2] == ["basics", "complexity"]
    assert PROBLEM.id in line
    assert "not read: no Python" in line


def test_what_cannot_be_scored_is_said(ratchet: Any, evaluation: ScriptedGateway) -> None:
    evaluation.answers({"samples": [sample(0, "x", "FAILED")]})
    result = ratchet("quality", "e1")
    assert (result.returncode, result.stderr) == (1, "ratchet: e1 has no samples that pass to score.\n")
    assert ratchet("quality", "e1", "--component", "beauty").returncode == 2


def test_problems_that_are_not_here_are_named(
    ratchet: Any, evaluation: ScriptedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "empty"))
    evaluation.answers({"samples": [sample(0, "x") | {"benchmark": "humaneval"}]})
    result = ratchet("quality", "e1")
    assert result.returncode == 1
    assert "ratchet data fetch humaneval" in result.stderr
