"""`ratchet new reward` and `ratchet reward try`; the sandbox answers as written."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet.sandbox.v1 import program_pb2_grpc
from ratchet_problems import jsonl, load
from ratchet_testing.gateway import ScriptedGateway

PROBLEM = load("basics")[0]


class Sandbox(program_pb2_grpc.ProgramServiceServicer):
    """Programs with tests pass, unless they are "wrong"; one without prints 0.5 for each of its samples."""

    def add(self, server: grpc.Server) -> None:
        program_pb2_grpc.add_ProgramServiceServicer_to_server(self, server)

    def StreamExecute(self, requests: Any, context: grpc.ServicerContext) -> Any:
        for request in requests:
            for index, program in enumerate(request.programs):
                yield pb.StreamExecuteResponse(items=[pb.ExecutionItem(index=index, execution=self._run(program))])

    def _run(self, program: pb.Program) -> pb.Execution:
        if not program.tests:
            count = len(json.loads(program.stdin)["samples"])
            return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, stdout=json.dumps([0.5] * count))
        passed = "wrong" not in program.source
        verdict = verdict_pb2.VERDICT_PASSED if passed else verdict_pb2.VERDICT_FAILED
        return pb.Execution(verdict=verdict, tests_passed=int(passed), tests_total=1)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    file = tmp_path / "samples.jsonl"
    rows = [
        {"task_id": PROBLEM.id, "completion": PROBLEM.references[0]},
        {"task_id": PROBLEM.id, "solution": "wrong = 1\n"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_samples_are_scored_as_in_a_run(ratchet: Any, target: str, samples: Path, tmp_path: Path) -> None:
    loud = tmp_path / "loud.py"
    loud.write_text("the_program = 1\n")
    reward = f"tests=0.5,style=0.25,{loud}=0.25"
    done = ratchet(
        "reward", "try", reward, "--samples", str(samples), "--problems", "basics", "--target", target, "--json"
    )
    assert done.returncode == 0, done.stderr
    right, wrong = json.loads(done.stdout)["samples"]
    assert right["values"] == {"tests_passed": 1.0, "style": 1.0, "loud": 0.5}
    assert (right["reward"], right["verdict"]) == (0.875, "PASSED")
    assert (wrong["values"]["tests_passed"], wrong["reward"]) == (0.0, 0.375)
    table = ratchet("reward", "try", "balanced", "--samples", str(samples), "--problems", "basics", "--target", target)
    assert table.stdout.splitlines()[0].split() == [
        "problem",
        "sample",
        "verdict",
        "tests_passed",
        "style",
        "length",
        "reward",
    ]


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ("loudest", "reward.name must be one of tests_passed"),
        ("style=0.5,stile=0.5", "did you mean style?"),
        ("style=", "has no number"),
        ("away.py", "away.py cannot be read"),
        ("tests=0.7,preference=0.3", "reward.components[1].model is missing: name a reward model"),
    ],
)
def test_a_reward_at_fault_is_said(ratchet: Any, target: str, samples: Path, reward: str, said: str) -> None:
    done = ratchet("reward", "try", reward, "--samples", str(samples), "--problems", "basics", "--target", target)
    assert done.returncode in (1, 2)
    assert said in " ".join(done.stderr.split())


def test_a_reward_model_scores_in_runs_only(ratchet: Any, target: str, samples: Path, tmp_path: Path) -> None:
    file = tmp_path / "reward.yaml"
    file.write_text("components: [{name: preference, model: judge@1}]\n")
    done = ratchet("reward", "try", str(file), "--samples", str(samples), "--problems", "basics", "--target", target)
    assert done.returncode in (1, 2)
    assert "preference is scored in the trainer's jobs only" in " ".join(done.stderr.split())


def test_a_relative_file_of_problems_is_below_the_folder_of_the_platform(
    ratchet: Any, target: str, samples: Path, tmp_path: Path
) -> None:
    (tmp_path / "problems").mkdir()
    jsonl.write([PROBLEM], tmp_path / "problems" / "mine.jsonl")
    tried = ("reward", "try", "style", "--samples", str(samples), "--target", target, "--json", "--problems")
    done = ratchet(*tried, "problems/mine.jsonl")
    assert (done.returncode, len(json.loads(done.stdout)["samples"])) == (0, 2)
    assert ratchet(*tried, "problems/other.jsonl").returncode == 1


def test_a_problem_that_the_set_lacks(ratchet: Any, target: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text('{"task_id": "away", "completion": "x"}\n')
    done = ratchet("reward", "try", "style", "--samples", str(file), "--problems", "basics", "--target", target)
    assert (done.returncode, done.stderr) == (1, "ratchet: basics has no problem away.\n")


@pytest.mark.parametrize("task", ["code", "math", "qa"])
def test_a_new_reward_passes_its_test_and_is_not_written_twice(ratchet: Any, tmp_path: Path, task: str) -> None:
    done = ratchet("new", "reward", "brevity", "--task", task, "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    test = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "test_brevity.py",
    ]
    plain = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    found = subprocess.run(test, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    assert "NAME" not in (tmp_path / "brevity.py").read_text()
    again = ratchet("new", "reward", "brevity", "--folder", str(tmp_path))
    assert (again.returncode, "is there already" in again.stderr) == (1, True)
    for name in ("not-a-name", "class", "json"):
        assert ratchet("new", "reward", name, "--folder", str(tmp_path)).returncode == 2
    poem = ratchet("new", "reward", "rhyme", "--task", "poems", "--folder", str(tmp_path))
    assert (poem.returncode, poem.stderr) == (2, "ratchet: --task poems: choose one of code, math, qa.\n")
    assert not (tmp_path / "rhyme.py").exists()


BREVITY = {"name": "brevity", "number": 2, "source": "the program\n", "digest": "sha256:" + "ab" * 32}


def test_a_reward_of_the_registry_is_tried(
    ratchet: Any, target: str, samples: Path, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    for reward, query in (("tests=0.5,brevity=0.5", {}), ("tests=0.5,brevity@2=0.5", {"number": "2"})):
        gateway.answers({"reward": BREVITY})
        done = ratchet(
            "reward", "try", reward, "--samples", str(samples), "--problems", "basics", "--target", target, "--json"
        )
        assert done.returncode == 0, done.stderr
        right, _ = json.loads(done.stdout)["samples"]
        assert right["values"] == {"tests_passed": 1.0, "brevity": 0.5}
        assert (gateway.received[-1].path, gateway.received[-1].query) == ("/api/v1/rewards/brevity", query)


def test_a_reward_is_added_listed_shown_and_removed(
    ratchet: Any, tmp_path: Path, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    file = tmp_path / "brevity.py"
    file.write_text("the program\n")
    gateway.answers({"reward": BREVITY})
    added = ratchet("reward", "add", str(file), "--description", "short answers")
    assert added.stdout == f"brevity@2  {BREVITY['digest']}\n"
    body = gateway.received[-1].body
    assert body.pop("request_id")
    assert body == {"name": "brevity", "source": "the program\n", "description": "short answers"}

    gateway.answers({"rewards": [{**BREVITY, "runs": 3}]})
    listed = ratchet("reward", "list", "brevity")
    assert listed.stdout.splitlines()[1].split()[:4] == ["brevity@2", "abababababab", "0", "3"]
    assert (gateway.received[-1].path, gateway.received[-1].query["name"]) == ("/api/v1/rewards", "brevity")

    gateway.answers({"reward": {**BREVITY, "runs": 3, "last_run_id": "run_9"}})
    shown = ratchet("reward", "show", "brevity").stdout
    assert shown.endswith("\n\nthe program\n")
    assert "3, run_9 the last" in shown

    gateway.answers({})
    assert ratchet("reward", "delete", "brevity@2", "--force").stdout == "brevity@2 is deleted.\n"
    deleted = gateway.received[-1]
    assert (deleted.verb, deleted.path) == ("DELETE", "/api/v1/rewards/brevity/versions/2")
    assert deleted.query == {"force": "true"}


@pytest.mark.parametrize(
    "arguments", [("delete", "brevity"), ("delete", "brevity@0"), ("show", "Brevity"), ("add", "away.py")]
)
def test_what_names_no_version_is_refused_here(ratchet: Any, arguments: tuple[str, ...]) -> None:
    assert ratchet("reward", *arguments).returncode == 2
