"""The service as it is run, with a Ray of its own: a process of the trainer environment, and a stub for the job."""

import asyncio
import os
import signal
import stat
import struct
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.common.v1 import model_pb2, priority_pb2, problem_pb2
from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.ports import free_block, free_port
from ratchet_testing.services import serving

TRAINER_PYTHON = Path(sys.prefix).parent / "trainer" / "bin" / "python"
STUB = Path(__file__).with_name("stub_job.py")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.verl,
    pytest.mark.skipif(not (TRAINER_PYTHON.parent / "ray").exists(), reason="the trainer environment has no Ray"),
]


class Registry(registry_pb2_grpc.RegistryServiceServicer):
    """registry-service's side of an export."""

    def __init__(self) -> None:
        self.made: dict[str, registry_pb2.CreateVersionRequest] = {}

    async def CreateVersion(
        self, request: registry_pb2.CreateVersionRequest, context: object
    ) -> registry_pb2.CreateVersionResponse:
        """PENDING at first, and READY when it is asked again."""
        pending, ready = registry_pb2.Version.STATE_PENDING, registry_pb2.Version.STATE_READY
        state = ready if request.request_id in self.made else pending
        self.made[request.request_id] = request
        ref = model_pb2.VersionRef(model=request.model, number=len(self.made))
        return registry_pb2.CreateVersionResponse(version=registry_pb2.Version(ref=ref, state=state))

    async def GetVersion(self, request: object, context: object) -> registry_pb2.GetVersionResponse:
        raise NotFound("there is no such version")

    async def ListVersions(self, request: object, context: object) -> registry_pb2.ListVersionsResponse:
        """None is being copied."""
        return registry_pb2.ListVersionsResponse()


class Service:
    """The process, and a client of it."""

    def __init__(self, environment: Mapping[str, str], port: int, base: Path, log: Path) -> None:
        self.target = f"127.0.0.1:{port}"
        self.base = base
        self.log = log
        self.runs = Path(environment["RATCHET_TRAINER_RUNS_FOLDER"])
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                *(str(TRAINER_PYTHON), "-m", "trainer_service.main"),
                env=os.environ | self._environment,
                stdout=out,
                stderr=out,
            )
        await wait_healthy(self.target, timedelta(minutes=3))

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), 60)

    def request(
        self, what: str, steps: int = 4, priority: priority_pb2.Priority.ValueType = priority_pb2.PRIORITY_NORMAL
    ) -> pb.CreateRunRequest:
        return pb.CreateRunRequest(
            spec=pb.RunSpec(
                display_name=what,
                base=model_pb2.ModelRef(uri=str(self.base)),
                algorithm=pb.ALGORITHM_GRPO,
                problems=problem_pb2.ProblemSetRef(name="basics"),
                steps=steps,
                output_model="coder",
                priority=priority,
            )
        )


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    return folder


@pytest.fixture
async def registry() -> AsyncIterator[tuple[Registry, str]]:
    servicer = Registry()

    def add(server: object) -> list[str]:
        registry_pb2_grpc.add_RegistryServiceServicer_to_server(servicer, server)
        return ["ratchet.registry.v1.RegistryService"]

    async with serving(add) as target:
        yield servicer, target


@pytest.fixture
async def service(
    tmp_path: Path, redis_url: str, redis: object, base: Path, registry: tuple[Registry, str]
) -> AsyncIterator[Service]:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {TRAINER_PYTHON} {STUB}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    port = free_port()
    environment = {
        "REDIS_URL": redis_url,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'trainer.db'}",
        "RATCHET_TRAINER_PORT": str(port),
        "RATCHET_TRAINER_METRICS_PORT": "0",
        "RATCHET_TRAINER_RAY_PORT": str(free_block(9)),
        "RATCHET_TRAINER_RUNS_FOLDER": str(tmp_path / "runs"),
        "RATCHET_TRAINER_JOB_PYTHON": str(python),
        "RATCHET_TRAINER_REGISTRY_TARGET": registry[1],
        "RATCHET_TRAINER_LEASE": "PT3S",
    }
    service = Service(environment, port, base, tmp_path / "service.log")
    await service.start()
    yield service
    await service.end()
    assert not [*processes_of(tmp_path)]


def processes_of(folder: Path) -> list[str]:
    """What still runs for the service that keeps its things in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


@asynccontextmanager
async def stubs(service: Service) -> AsyncIterator[trainer_pb2_grpc.TrainerServiceStub]:
    async with channel(service.target) as door:
        yield trainer_pb2_grpc.TrainerServiceStub(door)


async def is_over(stub: trainer_pb2_grpc.TrainerServiceStub, id: str) -> pb.Run:
    async with asyncio.timeout(300):
        async for update in stub.WatchRun(pb.WatchRunRequest(id=id)):
            last = update
    return last.run


async def until(stub: trainer_pb2_grpc.TrainerServiceStub, id: str, holds: Callable[[pb.Run], bool]) -> pb.Run:
    async with asyncio.timeout(300):
        while not holds(run := (await stub.GetRun(pb.GetRunRequest(id=id))).run):
            await asyncio.sleep(0.1)
        return run


async def is_at(stub: trainer_pb2_grpc.TrainerServiceStub, id: str, step: int) -> None:
    async with asyncio.timeout(300):
        async for update in stub.WatchRun(pb.WatchRunRequest(id=id)):
            if update.run.step >= step:
                return


async def test_jobs_run_and_die_and_are_cancelled(service: Service, registry: tuple[Registry, str]) -> None:
    """One test, since a Ray is started for it."""
    async with stubs(service) as stub:
        with pytest.raises(InvalidArgument) as refusal, rpc_errors():
            await stub.CreateRun(pb.CreateRunRequest(spec=pb.RunSpec(algorithm=pb.ALGORITHM_GRPO)))
        fields = {violation.field for violation in refusal.value.violations}
        assert fields == {"spec.base", "spec.problems.name", "spec.steps"}
        with pytest.raises(NotFound), rpc_errors():
            await stub.GetRun(pb.GetRunRequest(id="run_0"))

        # The job is killed before step 2: the next attempt does the rest, and the best checkpoint is exported.
        run = (await stub.CreateRun(service.request("die at 2"))).run
        done = await is_over(stub, run.id)
        assert (done.state, done.attempt, done.step) == (pb.Run.STATE_SUCCEEDED, 2, 4)
        assert (done.best_checkpoint.step, done.version.number, done.platform_faults) == (3, 1, 4)
        steps = (await stub.ListSteps(pb.ListStepsRequest(run_id=run.id))).steps
        assert [(step.number, step.attempt) for step in steps] == [(1, 1), (2, 2), (3, 2), (4, 2)]
        (made,) = registry[0].made.values()
        assert (made.source_uri, made.lineage.step, made.lineage.run_id) == (done.best_checkpoint.uri, 3, run.id)

        # It is deleted with its files.
        folder = service.runs / run.id
        assert folder.is_dir()
        await stub.DeleteRun(pb.DeleteRunRequest(id=run.id))
        assert not folder.exists()
        with pytest.raises(NotFound), rpc_errors():
            await stub.GetRun(pb.GetRunRequest(id=run.id))

        # What the job reports as wrong is final, until somebody takes the run up again.
        failed = await is_over(stub, (await stub.CreateRun(service.request("fail at 2"))).run.id)
        assert (failed.state, failed.attempt, failed.failure.message) == (
            pb.Run.STATE_FAILED,
            1,
            "the stub should fail",
        )
        assert (await stub.ResumeRun(pb.ResumeRunRequest(id=failed.id))).run.state == pb.Run.STATE_QUEUED
        done = await is_over(stub, failed.id)
        assert (done.state, done.attempt, done.step, done.resumes) == (pb.Run.STATE_SUCCEEDED, 2, 4, 1)
        assert not done.HasField("failure")
        with pytest.raises(FailedPrecondition), rpc_errors():
            await stub.ResumeRun(pb.ResumeRunRequest(id=failed.id))

        # A run of low priority makes room for one of high priority after a step, and goes on where it was.
        low = (await stub.CreateRun(service.request("slow", 500, priority_pb2.PRIORITY_LOW))).run
        await is_at(stub, low.id, 1)
        high = (await stub.CreateRun(service.request("urgent", 4, priority_pb2.PRIORITY_HIGH))).run
        waiting = await until(stub, high.id, lambda run: bool(run.waits_for))
        assert waiting.waits_for.startswith(f"the one place for runs ({low.id} is under way)")
        stopped = await until(stub, low.id, lambda run: run.state == pb.Run.STATE_QUEUED)
        assert (stopped.attempt, stopped.preempted_by, stopped.preemptions) == (1, high.id, 1)
        assert (await is_over(stub, high.id)).attempt == 1
        again = await until(stub, low.id, lambda run: run.step > stopped.step)
        assert (again.state, again.attempt, again.step) == (pb.Run.STATE_RUNNING, 2, stopped.step + 1)
        steps = (await stub.ListSteps(pb.ListStepsRequest(run_id=low.id))).steps
        assert [step.number for step in steps if step.attempt == 1] == [*range(1, stopped.step + 1)]
        await stub.CancelRun(pb.CancelRunRequest(id=low.id))

        # A cancelled job is stopped.
        slow = (await stub.CreateRun(service.request("slow", steps=500))).run
        await is_at(stub, slow.id, 1)
        assert (await stub.CancelRun(pb.CancelRunRequest(id=slow.id))).run.state == pb.Run.STATE_CANCELLED

        # The next run waits until that job is gone; its service is killed, and comes again.
        killed = (await stub.CreateRun(service.request("slow", steps=6))).run
        await is_at(stub, killed.id, 2)
    await service.end(signal.SIGKILL)
    await service.start()
    async with stubs(service) as stub:
        done = await is_over(stub, killed.id)
        assert (done.state, done.attempt, done.step) == (pb.Run.STATE_SUCCEEDED, 2, 6)
