"""trainer-service and registry-service with SQL, Redis and a real MLflow server: a run whose job is this test becomes a
version, and both are shown. What a real job makes of it: test_trackers.py."""

import asyncio
import json
import shutil
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ratchet_kit import policy_id
from ratchet_kit.faults import Faults
from ratchet_kit.names import Location
from ratchet_kit.statistics import Estimate
from ratchet_testing.services import serving
from registry_service import main as registry_main
from registry_service.settings import Settings as RegistrySettings
from services.trainer.tests.memory import MemoryJobs
from trainer_service import main as trainer_main
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, State, Step
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec
from trainer_service.settings import Settings

from .servers import MLFLOW, STARTER, mlflow_server

pytestmark = [
    pytest.mark.tracking,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not MLFLOW.exists(), reason="make tracking-test builds MLflow"),
]
SOON = timedelta(milliseconds=200)


@dataclass(frozen=True)
class World:
    service: Any
    jobs: MemoryJobs
    runs: Path
    mlflow: str

    async def api(self, path: str, body: Any = None) -> Any:
        def ask() -> Any:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{self.mlflow}/api/2.0/mlflow/{path}", data, headers)
            return json.load(urllib.request.urlopen(request, timeout=60))

        return await asyncio.to_thread(ask)

    async def until(self, run: Run, state: State) -> Run:
        while True:
            now: Run = await self.service.runs.get(run.id)
            if now.state is state:
                return now
            assert not now.state.is_final, now.failure
            await asyncio.sleep(0.2)

    async def started(self, run: Run, attempt: int) -> None:
        """The service has submitted the job, which now runs."""
        while (await self.service.runs.get(run.id)).attempt != attempt:
            await asyncio.sleep(0.1)
        await self.service.reports.started(run.id, attempt)

    async def step(self, run: Run, number: int, attempt: int = 1) -> None:
        step = Step(number, {"reward_mean": number / 10, "kl": 0.01}, f"sha256:{number}", datetime.now(UTC), attempt)
        await self.service.reports.step(run.id, step)


@asynccontextmanager
async def _world(folder: Path, redis_url: str, mlflow: str) -> AsyncIterator[World]:
    registry = RegistrySettings(
        port=0,
        redis_url=redis_url,
        database_url=f"sqlite:///{folder}/registry.db",
        artifact_url=str(folder / "artifacts"),
        sources=str(folder),
    )
    async with registry_main.provision(registry) as made, serving(made.add_to, *made.background) as target:
        settings = Settings(
            port=0,
            redis_url=redis_url,
            database_url=f"sqlite:///{folder}/trainer.db",
            registry_target=target,
            runs_folder=folder / "runs",
            sources=str(STARTER.parent),
            mlflow_tracking_uri=mlflow,
        )
        jobs = MemoryJobs()
        async with trainer_main.real_ports(settings) as ports:
            async with trainer_main.provision(
                settings, ports=replace(ports, jobs=jobs), tracking_interval=SOON
            ) as service:
                async with serving(service.add_to, *service.background):
                    yield World(service, jobs, folder / "runs", mlflow)


async def test_a_run_of_two_attempts_and_its_version_are_shown_once(tmp_path: Path, redis_url: str) -> None:
    with mlflow_server(tmp_path) as mlflow:
        async with _world(tmp_path, redis_url, mlflow) as world:
            run = await _train(world)
        # The service was stopped: another one finds nothing to send, and mirrors no version twice.
        async with _world(tmp_path, redis_url, mlflow) as world:
            await asyncio.sleep(3)
            await _check(world, run)


async def _train(world: World) -> Run:
    spec = RunSpec(
        base=Location(str(STARTER)),
        algorithm="grpo",
        problems=ProblemSetRef("composed/train"),
        steps=3,
        display_name="three steps",
        tracker_project="nightly",
        loggers=("console", "mlflow"),
        output_model="starter",
    )
    run = await world.service.runs.create("r1", spec, Faults().under("spec"))
    await world.started(run, 1)
    config = world.runs / run.id / "record/config/attempt-1.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("trainer: {device: cpu}\n")
    await world.step(run, 1)
    await world.step(run, 2)
    world.jobs.end(run.id, 1, "it was killed by SIGKILL")
    await world.started(run, 2)
    await world.step(run, 2, attempt=2)
    await world.step(run, 3, attempt=2)
    export = world.runs / run.id / "exports/step-3-attempt-2"
    shutil.copytree(STARTER, export)
    identity = policy_id.of_folder(export)
    checkpoint = Checkpoint(3, str(export), identity, datetime.now(UTC), 0.5, Estimate(0.5, 0.4, 0.6))
    await world.service.reports.checkpoint(run.id, 2, checkpoint)
    await world.service.reports.finished(run.id, 2, None)
    run = await world.until(run, State.SUCCEEDED)
    await _until(lambda: _shown(world, run.id), lambda shown: shown["info"]["status"] == "FINISHED")
    await _until(lambda: _versions(world), lambda found: len(found) == 1)
    return run


async def _until(ask: Any, is_so: Any) -> Any:
    async with asyncio.timeout(300):
        while True:
            try:
                if is_so(found := await ask()):
                    return found
            except (OSError, LookupError):
                pass
            await asyncio.sleep(0.5)


async def _shown(world: World, id: RunId) -> Any:
    experiment = (await world.api("experiments/get-by-name?experiment_name=nightly"))["experiment"]
    wanted = {"experiment_ids": [experiment["experiment_id"]], "filter": f"tags.`ratchet.run` = '{id}'"}
    (shown,) = (await world.api("runs/search", wanted))["runs"]
    return shown


async def _versions(world: World) -> Any:
    wanted = quote("name='starter'")
    return (await world.api(f"model-versions/search?filter={wanted}"))["model_versions"]


async def _check(world: World, run: Run) -> None:
    shown = await _shown(world, run.id)
    id = shown["info"]["run_id"]
    assert shown["info"]["run_name"] == "three steps"
    tags = {tag["key"]: tag["value"] for tag in shown["data"]["tags"]}
    assert (tags["ratchet.version"], tags["ratchet.attempt"], tags["ratchet.state"]) == ("starter@1", "2", "SUCCEEDED")
    params = {one["key"]: one["value"] for one in shown["data"]["params"]}
    assert params["hyperparameters.group_size"] == "8"
    history = (await world.api(f"metrics/get-history?run_id={id}&metric_key=reward_mean"))["metrics"]
    assert [(one["step"], one["value"]) for one in history] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    files = (await world.api(f"artifacts/list?run_id={id}"))["files"]
    assert {one["path"] for one in files} == {"config", "spec.json", "checkpoints.json", "notices.json"}
    (version,) = await _versions(world)
    tags = {tag["key"]: tag["value"] for tag in version["tags"]}
    assert run.best_checkpoint is not None
    assert (version["run_id"], tags["ratchet.version"]) == (id, "starter@1")
    assert tags["ratchet.policy_id"] == run.best_checkpoint.policy_id
