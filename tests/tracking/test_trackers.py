"""A run of the real platform in a real MLflow server and a real TensorBoard, each asked over its own HTTP API.

`make tracking-test` builds what it needs: MLflow has an environment of its own, TensorBoard is in the trainer's.
"""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client

from ..e2e.conftest import Platform, running
from .servers import MLFLOW, TENSORBOARD, mlflow_server, tensorboard, until

STEPS = 3

pytestmark = [
    pytest.mark.tracking,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not MLFLOW.exists() or not TENSORBOARD.exists(), reason="make tracking-test builds MLflow"),
]


@dataclass(frozen=True)
class Trackers:
    mlflow: str
    tensorboard: str
    folder: Path

    def api(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.mlflow}/api/2.0/{path}", data, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=30))

    def board(self, path: str) -> Any:
        return json.load(urllib.request.urlopen(f"{self.tensorboard}/data/{path}", timeout=30))


@pytest.fixture(scope="module")
def trackers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trackers]:
    folder = tmp_path_factory.mktemp("trackers")
    with mlflow_server(folder) as mlflow, tensorboard(folder, folder / "boards") as board:
        yield Trackers(mlflow, board, folder)


@pytest.fixture(scope="module")
def platform(trackers: Trackers) -> Iterator[Platform]:
    environment = {
        "MLFLOW_TRACKING_URI": trackers.mlflow,
        "RATCHET_TRAINER_TENSORBOARD_URL": str(trackers.folder / "boards"),
    }
    with running(environment) as platform:
        yield platform


def _spec() -> trainer_pb2.RunSpec:
    return trainer_pb2.RunSpec(
        display_name="three steps",
        tracker_project="nightly",
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name="composed/train"),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=8),
        reward=trainer_pb2.RewardSpec(name="tests_passed"),
        steps=STEPS,
        seed=1,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=8, group_size=4, learning_rate=5e-5, max_prompt_tokens=64, max_response_tokens=72
        ),
        loggers=["mlflow", "tensorboard"],
        profile_steps=[2],
        output_model="starter",
    )


def test_trackers_show_a_run_its_files_and_its_version(platform: Platform, trackers: Trackers, tmp_path: Path) -> None:
    with platform.client() as client:
        run = client.runs.wait(client.runs.create(_spec()).id)
        assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
        _check_files(platform, client, run, tmp_path)
        _check_mlflow(client, trackers, run)
        _check_tensorboard(client, trackers, run)


def _check_files(platform: Platform, client: Client, run: trainer_pb2.Run, folder: Path) -> None:
    names = [one.name for one in client.runs.files(run.id)]
    assert "config/attempt-1.yaml" in names
    assert f"\n{STEPS}-0-" in platform.ratchet("samples", "list", run.id, "--step", str(STEPS)).stdout
    config = platform.ratchet("runs", "config", run.id)
    assert "adv_estimator: grpo" in config.stdout, config.stderr
    (trace,) = [name for name in names if name.startswith("profile/")]
    downloaded = platform.ratchet("runs", "download", run.id, "profile/", "--out", str(folder))
    assert (folder / trace).stat().st_size > 1000, downloaded.stderr
    report = platform.ratchet("runs", "report", run.id, "--out", str(folder / "run.html"))
    assert report.returncode == 0, report.stderr
    page = (folder / "run.html").read_text()
    assert run.id in page
    assert "adv_estimator" in page
    assert "src=" not in page


def _mlflow_run(trackers: Trackers, run_id: str) -> Any:
    experiment = trackers.api("mlflow/experiments/get-by-name?experiment_name=nightly")["experiment"]
    wanted = {"experiment_ids": [experiment["experiment_id"]], "filter": f"tags.`ratchet.run` = '{run_id}'"}
    runs = trackers.api("mlflow/runs/search", wanted)["runs"]
    assert len(runs) == 1
    return runs[0]


def _check_mlflow(client: Client, trackers: Trackers, run: trainer_pb2.Run) -> None:
    until(lambda: _mlflow_run(trackers, run.id)["info"]["status"] == "FINISHED")
    shown = _mlflow_run(trackers, run.id)
    id = shown["info"]["run_id"]
    assert shown["info"]["run_name"] == "three steps"
    tags = {tag["key"]: tag["value"] for tag in shown["data"]["tags"]}
    assert tags["ratchet.version"] == f"starter@{run.version.number}"
    assert tags["ratchet.policy_id"] == run.best_checkpoint.policy_id
    params = {one["key"]: one["value"] for one in shown["data"]["params"]}
    assert params["hyperparameters.learning_rate"] == "5e-05"
    history = trackers.api(f"mlflow/metrics/get-history?run_id={id}&metric_key=reward_mean")["metrics"]
    steps = {step.number: step.metrics for step in client.runs.steps(run.id)}
    assert {one["step"]: one["value"] for one in history} == {n: m["reward_mean"] for n, m in steps.items()}
    assert len(history) == STEPS  # none twice
    files = trackers.api(f"mlflow/artifacts/list?run_id={id}")["files"]
    said = {"notices.json"} if run.notices else set()
    assert {one["path"] for one in files} == {"config", "spec.json", "checkpoints.json"} | said

    def versions() -> list[Any]:
        wanted = quote("name='starter'")
        found: list[Any] = trackers.api(f"mlflow/model-versions/search?filter={wanted}")["model_versions"]
        return found if len(found) == run.version.number else []

    newest = max(until(versions), key=lambda one: int(one["version"]))
    tags = {tag["key"]: tag["value"] for tag in newest["tags"]}
    assert newest["run_id"] == id
    assert tags["ratchet.version"] == f"starter@{run.version.number}"
    assert tags["ratchet.policy_id"] == run.best_checkpoint.policy_id

    client.models.set_alias("starter", "candidate", run.version.number)

    def aliases() -> dict[str, str]:
        model = trackers.api("mlflow/registered-models/get?name=starter")["registered_model"]
        return {one["alias"]: one["version"] for one in model["aliases"]}

    until(lambda: aliases().get("candidate") == newest["version"])
    assert aliases()["champion"] != newest["version"]


def _check_tensorboard(client: Client, trackers: Trackers, run: trainer_pb2.Run) -> None:
    name = f"nightly/three-steps-{run.id}"
    until(lambda: name in trackers.board("runs"))
    where = f"?run={quote(name, safe='')}&tag=reward_mean"
    points = until(
        lambda: (found := trackers.board(f"plugin/scalars/scalars{where}")) and len(found) == STEPS and found
    )
    assert [step for _, step, _ in points] == [1, 2, 3]
    texts = trackers.board("plugin/text/tags")[name]
    assert {"run", "spec", "config/attempt-1.yaml"} <= set(texts)
    said = trackers.board(f"plugin/text/text?run={quote(name, safe='')}&tag=run")
    assert f"starter@{run.version.number}" in said[-1]["text"]
