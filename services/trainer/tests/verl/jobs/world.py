"""Whole jobs: the services around one for real, but for trainer-service, of which a servicer here keeps the reports."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.trainer.v1 import job_report_pb2 as pb
from ratchet.trainer.v1 import job_report_pb2_grpc, trainer_pb2
from ratchet_kit.client import wait_healthy
from ratchet_kit.process import ProcessGroup
from ratchet_policies.fleet import connect
from ratchet_testing.ports import free_port
from ratchet_testing.processes import process
from trainer_service.domain.spec.spec import RunSpec
from trainer_service.job.run.config import Dtype, JobConfig

ROOT = Path(__file__).parents[5]
LIGHT = ROOT / ".venvs/light/bin/python"
TRAINER = ROOT / ".venvs/trainer/bin/python"
ROLLOUT = ROOT / ".venvs/rollout/bin/python"
STARTER = ROOT / "models/starter"

RUNS_JOBS = [
    pytest.mark.verl,
    pytest.mark.vllm,
    pytest.mark.skipif(
        not TRAINER.exists() or not ROLLOUT.exists(), reason="needs the trainer and rollout environments"
    ),
    pytest.mark.skipif(not STARTER.exists(), reason="needs the starter model"),
]
"""The marks of a module whose tests do."""

PATIENCE = timedelta(minutes=10)


@dataclass
class Reports(job_report_pb2_grpc.JobReportServiceServicer):
    """The reports of a job. `steps` are by number: a resumed job reports some again."""

    attempt: int = 1
    cancelled: bool = False
    steps: dict[int, trainer_pb2.Step] = field(default_factory=dict)
    checkpoints: dict[int, trainer_pb2.Checkpoint] = field(default_factory=dict)
    faults: int = 0
    ending: str | None = None
    phases: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    """For each thing that a job waited for, its sentence."""

    def attempts(self) -> list[int]:
        """Of each step, in order."""
        return [self.steps[number].attempt for number in sorted(self.steps)]

    def measured(self, name: str) -> list[float]:
        """By each step, in order."""
        return [self.steps[number].metrics[name] for number in sorted(self.steps)]

    def policy_ids(self) -> list[str]:
        return [self.steps[number].policy_id for number in sorted(self.steps)]

    def scores(self) -> list[float]:
        return [self.checkpoints[step].validation_score for step in sorted(self.checkpoints)]

    def forget(self) -> None:
        """For another run."""
        self.attempt, self.ending = 1, None
        self.steps.clear()
        self.checkpoints.clear()

    async def ReportStarted(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportStartedResponse:
        await self._fence(request, context)
        return pb.ReportStartedResponse()

    async def ReportHeartbeat(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportHeartbeatResponse:
        await self._fence(request, context)
        if request.waits_for and request.waits_for not in self.waits:
            self.waits.append(request.waits_for)
        return pb.ReportHeartbeatResponse()

    async def ReportPhase(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportPhaseResponse:
        self.phases.append(trainer_pb2.Run.Phase.Name(request.phase).removeprefix("PHASE_"))
        return pb.ReportPhaseResponse()

    async def ReportStep(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportStepResponse:
        await self._fence(request, context)
        self.steps[request.step.number] = request.step
        self.faults += request.platform_faults
        return pb.ReportStepResponse(cancelled=self.cancelled)

    async def ReportCheckpoint(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportCheckpointResponse:
        await self._fence(request, context)
        self.checkpoints[request.checkpoint.step] = request.checkpoint
        return pb.ReportCheckpointResponse()

    async def ReportFinished(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportFinishedResponse:
        await self._fence(request, context)
        self.ending = request.failure.message
        return pb.ReportFinishedResponse()

    async def until(self, job: ProcessGroup, condition: Callable[["Reports"], bool]) -> None:
        """Returns when the condition holds; fails when the job has died before."""
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not condition(self):
                assert job.returncode in (None, 0), f"the job ended with {job.returncode}: {self.ending}"
                await asyncio.sleep(0.2)

    async def _fence(self, request: Any, context: grpc.aio.ServicerContext) -> None:
        if request.attempt != self.attempt:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"attempt {request.attempt} is over")


@dataclass(frozen=True)
class RolloutNode:
    group: ProcessGroup
    target: str

    async def learns(self, updates: int) -> None:
        """Returns when it has taken as many updates of weights."""
        engine = connect(self.target)
        while not any(one.weight_updates >= updates for one in await engine.all()):
            await asyncio.sleep(0.02)
        await engine.close()

    async def generates(self) -> None:
        """Returns when it makes completions."""
        engine = connect(self.target)
        while not any(one.sequences for one in (await engine.report()).node.engines):
            await asyncio.sleep(0.02)
        await engine.close()


@dataclass(frozen=True)
class World:
    """The targets of the services, and how jobs run between them."""

    reports: Reports
    folder: Path
    trainer: str
    rollout: str
    sandbox: str

    def job(
        self,
        spec: RunSpec,
        dtype: Dtype = "float32",
        name: str = "run",
        base: Path = STARTER,
        reward_model: str = "",
        export_uri: str = "",
    ) -> JobConfig:
        """The attempt whose reports are taken."""
        return JobConfig(
            run_id=f"job_{name}",
            attempt=self.reports.attempt,
            spec=spec,
            base_path=str(base),
            base_uri=str(base),
            reward_model_path=reward_model,
            export_uri=export_uri,
            work_dir=self.folder / name,
            trainer_target=self.trainer,
            rollout_target=self.rollout,
            sandbox_target=self.sandbox,
            registry_target="",
            dtype=dtype,
        )

    @asynccontextmanager
    async def second_node(self) -> AsyncIterator[tuple[RolloutNode, str]]:
        """And the addresses of both."""
        port = free_port()
        env = {
            "RATCHET_ROLLOUT_PORT": str(port),
            "RATCHET_ROLLOUT_METRICS_PORT": "0",
            "RATCHET_ROLLOUT_WORK_DIR": str(self.folder / "rollout-2"),
            "RATCHET_SOURCES": "/",
        }
        log = self.folder / "rollout-2.log"
        async with process(log, str(ROLLOUT), "-m", "rollout_service.main", **env) as group:
            node = RolloutNode(group, f"127.0.0.1:{port}")
            await wait_healthy(node.target, timedelta(minutes=2))
            yield node, f"{self.rollout},{node.target}"

    @asynccontextmanager
    async def running(self, job: JobConfig, **environment: str) -> AsyncIterator[ProcessGroup]:
        log = self.folder / f"{job.run_id}-{job.attempt}.log"
        async with process(log, str(TRAINER), "-m", "trainer_service.verl", **job.to_env(), **environment) as group:
            yield group

    async def finish(self, job: JobConfig, **environment: str) -> None:
        """Runs it to its end, which must be a good one."""
        async with self.running(job, **environment) as group:
            await self.reports.until(group, lambda now: now.ending is not None)
        assert self.reports.ending == ""

    async def kill(self, job: JobConfig, after: int) -> None:
        """Runs it until it has reported the step `after`. What is taken from then on are the next attempt's reports."""
        async with self.running(job) as group:
            await self.reports.until(group, lambda now: after in now.steps)
            os.killpg(group.pid, signal.SIGKILL)
        self.reports.attempt += 1
