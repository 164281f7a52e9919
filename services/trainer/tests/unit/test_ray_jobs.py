"""Ray's job API, as far as it is used: over HTTP against a stand-in that answers as Ray 2.60 does."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ratchet_kit.errors import Unavailable
from trainer_service.adapters.ray_head import Cluster
from trainer_service.adapters.ray_jobs import JobOptions, RayJobs, RemoteRay
from trainer_service.domain.cluster.capacity import Demand, Node
from trainer_service.domain.cluster.ports import JobState, JobStatus
from trainer_service.domain.inputs.found import FetchedModel
from trainer_service.domain.run.run import Run, RunId
from trainer_service.job.run.config import JobConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def listed() -> dict[str, Any]:
    """As Ray 2.60 lists its nodes, without what nobody reads."""
    has = {"CPU": 16.0, "GPU": 8.0, "memory": 1e11, "node:10.0.0.1": 1.0}
    nodes = [
        {
            "node_id": "a",
            "node_ip": "10.0.0.0",
            "state": "ALIVE",
            "is_head_node": True,
            "resources_total": {"CPU": 4.0, "memory": 1e10},
        },
        {"node_id": "b", "node_ip": "10.0.0.1", "state": "ALIVE", "is_head_node": False, "resources_total": has},
        {"node_id": "c", "state": "DEAD", "is_head_node": False, "resources_total": {}},
    ]
    return {"result": True, "msg": "", "data": {"result": {"total": 3, "result": nodes}}}


@dataclass
class RayApi:
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    down: bool = False
    token: str = "secret"
    groups: list[dict[str, Any]] = field(default_factory=list)
    lists_jobs: bool = True
    nodes: httpx.Response = field(default_factory=lambda: httpx.Response(200, json=listed()))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.down:
            raise httpx.ConnectError("refused")
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return httpx.Response(401, text="Unauthorized: Missing authentication token")
        if request.url.path == "/api/v0/nodes":
            return self.nodes
        if request.url.path == "/api/v0/placement_groups":
            return httpx.Response(200, json={"data": {"result": {"result": self.groups}}})
        if request.method == "GET" and request.url.path == "/api/jobs/":
            if not self.lists_jobs:
                return httpx.Response(500, text="no agent")
            return httpx.Response(200, json=[{"job_id": f"0{name[-1]}", "submission_id": name} for name in self.jobs])
        name = request.url.path.removeprefix("/api/jobs/").removesuffix("/stop")
        if request.method == "POST" and not name:
            body = json.loads(request.content)
            if "demand" in body["entrypoint"]:
                return httpx.Response(200, json={})
            self.jobs[body["submission_id"]] = {"status": "PENDING", "message": "", "driver_exit_code": None}
            return httpx.Response(200, json={"submission_id": body["submission_id"]})
        if name not in self.jobs:
            return httpx.Response(404, text=f"Job {name} does not exist")
        if request.url.path.endswith("/stop"):
            self.jobs[name]["status"] = "STOPPED"
            return httpx.Response(200, json={"stopped": True})
        return httpx.Response(200, json=self.jobs[name])


BASE = FetchedModel("s3://bucket/s", Path("/copies/s"))


@pytest.fixture
def ray() -> RayApi:
    return RayApi()


@pytest.fixture
async def jobs(ray: RayApi, tmp_path: Path) -> AsyncIterator[RayJobs]:
    options = JobOptions(
        runs_folder=tmp_path,
        exports_uri="s3://bucket/runs",
        samples_uri="s3://bucket/samples",
        python="python",
        trainer_target="trainer:1",
        rollout_target="rollout:2",
        sandbox_target="sandbox:3",
        registry_target="registry:4",
        dtype="float32",
        max_fault_share=0.05,
        patience=timedelta(minutes=5),
    )
    cluster = Cluster("http://ray:8265", {"Authorization": "Bearer secret"})
    jobs = RayJobs(RemoteRay(cluster), options, transport=httpx.MockTransport(ray.answer))
    yield jobs
    await jobs.close()


async def test_a_job_knows_where_its_reward_model_is(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    await jobs.submit(run, BASE, FetchedModel("/models/judge", Path("/models/judge")))
    environment = json.loads(ray.requests[-1].content)["runtime_env"]["env_vars"]
    assert JobConfig.from_env(environment).reward_model_path == "/models/judge"


@pytest.fixture
def run(make_complete_spec: Any) -> Run:
    return Run.create(RunId("run_1"), make_complete_spec(), NOW).start(NOW)


async def test_a_job_gets_all_it_needs(ray: RayApi, jobs: RayJobs, run: Run, tmp_path: Path) -> None:
    await jobs.submit(run, BASE)
    request = ray.requests[-1]
    body = json.loads(request.content)
    assert request.headers["Authorization"] == "Bearer secret"
    assert body["submission_id"] == "run_1-1"
    assert body["entrypoint"] == f"exec python -m trainer_service.verl >> {tmp_path}/run_1/logs/attempt-1.log 2>&1"
    job = JobConfig.from_env(body["runtime_env"]["env_vars"])
    assert (job.run_id, job.attempt, job.work_dir) == ("run_1", 1, tmp_path / "run_1")
    assert (job.base_path, job.base_uri) == ("/copies/s", "s3://bucket/s")
    assert job.reward_model_path == ""
    assert (job.export_uri, job.samples_uri) == ("s3://bucket/runs/run_1", "s3://bucket/samples/run_1")
    assert job.spec == run.spec
    assert (tmp_path / "run_1" / "logs").is_dir()


async def test_a_job_is_submitted_once(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    await jobs.submit(run, BASE)
    await jobs.submit(run, BASE)
    assert [request.method for request in ray.requests] == ["GET", "POST", "GET"]


@pytest.mark.parametrize(
    ("details", "status"),
    [
        ({"status": "PENDING"}, JobStatus(JobState.WAITING)),
        ({"status": "RUNNING"}, JobStatus(JobState.ACTIVE)),
        ({"status": "FAILED", "driver_exit_code": -9}, JobStatus(JobState.ENDED, "it was killed by SIGKILL")),
        ({"status": "FAILED", "driver_exit_code": 1}, JobStatus(JobState.ENDED, "it ended with exit code 1")),
        (
            {"status": "FAILED", "driver_exit_code": 77},
            JobStatus(JobState.ENDED, "it ended with exit code 77", out_of_memory=True),
        ),
        ({"status": "SUCCEEDED", "driver_exit_code": 0}, JobStatus(JobState.ENDED, "it ended without a report")),
        ({"status": "FAILED", "message": "No room.\nMore."}, JobStatus(JobState.ENDED, "No room.")),
    ],
)
async def test_what_has_become_of_a_job(ray: RayApi, jobs: RayJobs, details: dict[str, Any], status: JobStatus) -> None:
    ray.jobs["run_1-1"] = details
    assert await jobs.status(RunId("run_1"), 1) == status


async def test_a_job_that_ended_is_quoted(ray: RayApi, jobs: RayJobs, run: Run, tmp_path: Path) -> None:
    await jobs.submit(run, BASE)
    (tmp_path / "run_1" / "logs" / "attempt-1.log").write_text("first\nMemoryError\n\n")
    ray.jobs["run_1-1"] = {"status": "FAILED", "driver_exit_code": 1}
    assert (await jobs.status(run.id, 1)).message == "it ended with exit code 1, after the line 'MemoryError'"


async def test_a_job_that_said_why_it_ends_is_believed(ray: RayApi, jobs: RayJobs, run: Run, tmp_path: Path) -> None:
    await jobs.submit(run, BASE)
    lost = json.dumps({"reason": "step 1: 16 of 16 samples are lost", "event": "job.lost", "attempt": 1})
    log = f"first\nTraining Progress: 0%|{lost}\nTraining Progress: 0%|          | 0/3\n"
    (tmp_path / "run_1" / "logs" / "attempt-1.log").write_text(log)
    ray.jobs["run_1-1"] = {"status": "FAILED", "driver_exit_code": 75}
    assert (await jobs.status(run.id, 1)).message == "step 1: 16 of 16 samples are lost"


async def test_a_cluster_has_what_its_living_nodes_have(ray: RayApi, jobs: RayJobs) -> None:
    assert await jobs.nodes() == [Node(4, 0, "a", "10.0.0.0"), Node(16, 8, "b", "10.0.0.1")]
    for answer in (httpx.Response(404, text="Not Found"), httpx.Response(200, json={"result": False, "data": None})):
        ray.nodes = answer
        with pytest.raises(Unavailable, match="does not list its nodes"):
            await jobs.nodes()


async def test_jobs_are_where_their_cluster_is(jobs: RayJobs) -> None:
    assert jobs.place == "http://ray:8265"


async def test_a_job_that_ray_does_not_know_is_unknown(jobs: RayJobs) -> None:
    assert (await jobs.status(RunId("run_1"), 1)).state is JobState.UNKNOWN
    await jobs.stop(RunId("run_1"), 1)


async def test_stop_waits_for_the_end(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    await jobs.submit(run, BASE)
    await jobs.stop(run.id, 1)
    assert (await jobs.status(run.id, 1)).state is JobState.ENDED


async def test_a_cluster_that_wants_another_token_says_which_setting_it_is(
    ray: RayApi, jobs: RayJobs, run: Run
) -> None:
    ray.token = "changed"
    with pytest.raises(Unavailable, match="RATCHET_TRAINER_RAY_TOKEN"):
        await jobs.submit(run, BASE)


async def test_a_cluster_that_does_not_answer_is_unavailable(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    ray.down = True
    for call in (jobs.submit(run, BASE), jobs.status(run.id, 1), jobs.stop(run.id, 1)):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await call


async def test_verl_does_not_write_what_the_service_sends(ray: RayApi, jobs: RayJobs, make_complete_spec: Any) -> None:
    spec = make_complete_spec(loggers=("console", "mlflow", "tensorboard"))
    run = Run.create(RunId("run_1"), spec, NOW, trackers=["mlflow"]).start(NOW)
    await jobs.submit(run, BASE)
    body = json.loads(next(one for one in ray.requests if one.method == "POST").content)
    job = JobConfig.from_env(body["runtime_env"]["env_vars"])
    assert job.spec.loggers == ("console", "tensorboard")


async def test_ray_is_told_once_what_is_wanted(ray: RayApi, jobs: RayJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    demand = Demand(2, 4, controllers=1, policies=1, memory_bytes=0)
    await jobs.want([])
    assert not ray.requests, "nothing was ever wanted"
    await jobs.want([demand])
    await jobs.want([demand])
    (sent,) = [json.loads(one.content) for one in ray.requests]
    bundles = [{"CPU": 4, "GPU": 4}] * 2 + [{"CPU": 1, "GPU": 0}]
    assert sent["entrypoint"] == f"python -m trainer_service.verl.demand '{json.dumps(bundles)}'"
    later = time.monotonic() + 200
    monkeypatch.setattr("trainer_service.adapters.ray_jobs.time.monotonic", lambda: later)
    await jobs.want([demand])
    assert len(ray.requests) == 2, "a Ray that has started anew does not know it"
    await jobs.want([])
    await jobs.want([])
    assert json.loads(ray.requests[-1].content)["metadata"] == {"wants": "[]"}
    assert len(ray.requests) == 3


async def test_each_node_has_its_runs(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    await jobs.submit(run, BASE)
    bundles = [{"node_id": "b"}, {"node_id": "b"}, {"node_id": "gone"}]
    strangers = {"creator_job_id": "09", "state": "CREATED", "bundles": [{"node_id": "a"}]}
    pending = {"creator_job_id": "01", "state": "PENDING", "bundles": None}
    ray.groups = [{"creator_job_id": "01", "state": "CREATED", "bundles": bundles}, strangers, pending]
    found = await jobs.holders()
    assert {node.address: list(runs) for node, runs in found.items()} == {"10.0.0.0": [], "10.0.0.1": ["run_1"]}
    ray.lists_jobs = False
    with pytest.raises(Unavailable, match="does not list its jobs: no agent"):
        await jobs.holders()


async def test_an_attempt_of_fewer_nodes_is_a_job_of_fewer(ray: RayApi, jobs: RayJobs, run: Run) -> None:
    await jobs.submit(replace(run, nodes=3), BASE)
    job = JobConfig.from_env(json.loads(ray.requests[-1].content)["runtime_env"]["env_vars"])
    assert job.spec.resources.nodes == 3
