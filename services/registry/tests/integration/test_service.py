"""The service as it is run: a process of its own, over gRPC, with SQLite, Redis and a folder."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import redis.asyncio

from ratchet.common.v1 import model_pb2, problem_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.ports import free_port
from ratchet_testing.services import serving
from ratchet_testing.waiting import until

from ..conftest import ModelFolder, files_below

pytestmark = pytest.mark.integration

READY, PENDING = pb.Version.STATE_READY, pb.Version.STATE_PENDING


class Evaluations(eval_pb2_grpc.EvalServiceServicer):
    """eval-service's side of a gate."""

    def __init__(self) -> None:
        self.policies: dict[str, str] = {}
        self.state = eval_pb2.Evaluation.STATE_SUCCEEDED

    async def GetEvaluation(self, request: Any, context: Any) -> eval_pb2.GetEvaluationResponse:
        if request.id not in self.policies:
            raise NotFound(f"there is no evaluation {request.id}")
        spec = eval_pb2.EvaluationSpec(problems=problem_pb2.ProblemSetRef(name="composed/test", digest="sha256:d"))
        return eval_pb2.GetEvaluationResponse(
            evaluation=eval_pb2.Evaluation(
                id=request.id, spec=spec, state=self.state, policy_id=self.policies[request.id]
            )
        )

    async def GetMeasurements(self, request: Any, context: Any) -> eval_pb2.GetMeasurementsResponse:
        return eval_pb2.GetMeasurementsResponse(
            measurements=[
                eval_pb2.Measurement(
                    evaluation_id=id, model="starter", policy_id=policy, setup="d", draw=id, problems=100, total=100
                )
                for id, policy in self.policies.items()
            ]
        )

    async def CompareEvaluations(self, request: Any, context: Any) -> eval_pb2.CompareEvaluationsResponse:
        comparison = statistics_pb2.Comparison(
            difference=statistics_pb2.Estimate(value=0.2, low=0.1, high=0.3),
            p_value=0.001,
            problems=100,
            clusters=100,
            confidence=request.confidence,
        )
        one = eval_pb2.BenchmarkComparison(name="composed/test", comparison=comparison)
        return eval_pb2.CompareEvaluationsResponse(comparison=comparison, benchmarks=[one])


@pytest.fixture
async def evaluations() -> AsyncIterator[tuple[Evaluations, str]]:
    servicer = Evaluations()

    def add(server: grpc.aio.Server) -> list[str]:
        eval_pb2_grpc.add_EvalServiceServicer_to_server(servicer, server)
        return ["ratchet.eval.v1.EvalService"]

    async with serving(add) as target:
        yield servicer, target


@dataclass(frozen=True, slots=True)
class Process:
    """A registry that runs."""

    process: asyncio.subprocess.Process
    stub: registry_pb2_grpc.RegistryServiceStub
    door: grpc.aio.Channel

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where registries run: one database, one queue, one folder."""

    folder: Path
    settings: dict[str, str]
    processes: list[Process] = field(default_factory=list)

    @asynccontextmanager
    async def registry(self, *program: str, **settings: str) -> AsyncIterator[Process]:
        port = free_port()
        own = {"RATCHET_REGISTRY_PORT": str(port), "RATCHET_REGISTRY_METRICS_PORT": str(free_port())}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(program or ("-m", "registry_service.main")),
            env=os.environ | self.settings | own | settings,
        )
        try:
            await wait_healthy(f"127.0.0.1:{port}")
            async with channel(f"127.0.0.1:{port}") as door:
                yield Process(process, registry_pb2_grpc.RegistryServiceStub(door), door)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 15) == 0


@pytest.fixture
def machine(
    evaluations: tuple[Evaluations, str], tmp_path: Path, redis: redis.asyncio.Redis, redis_url: str
) -> Machine:
    """`redis` empties it first."""
    return Machine(
        tmp_path,
        {
            "RATCHET_REGISTRY_EVAL_TARGET": evaluations[1],
            "RATCHET_REGISTRY_LEASE": "2",
            "DATABASE_URL": f"sqlite:///{tmp_path}/db/registry.db",
            "REDIS_URL": redis_url,
            "ARTIFACT_URL": str(tmp_path / "artifacts"),
        },
    )


async def ready(stub: Any, version: pb.Version) -> pb.Version:
    """The version once it is no longer PENDING."""
    request = pb.WatchVersionRequest(model=version.ref.model, number=version.ref.number)
    async with asyncio.timeout(60):
        return [reply.version async for reply in stub.WatchVersion(request)][-1]


def create(folder: Path, request_id: str = "") -> pb.CreateVersionRequest:
    return pb.CreateVersionRequest(request_id=request_id, model="starter", source_uri=str(folder))


def starter(number: int) -> model_pb2.VersionRef:
    return model_pb2.VersionRef(model="starter", number=number)


async def test_from_first_version_to_promotion(
    machine: Machine, evaluations: tuple[Evaluations, str], model_folder: ModelFolder
) -> None:
    servicer, _ = evaluations
    async with machine.registry() as process:
        registry = process.stub
        for seed in (1, 2):
            request = pb.CreateVersionRequest(
                request_id=f"req_{seed}",
                model="starter",
                source_uri=str(model_folder(f"m{seed}", seed)),
                lineage=pb.Lineage(base=model_pb2.ModelRef(version=starter(1)), run_id="run_1", step=3),
                labels={"seed": str(seed)},
            )
            created = (await registry.CreateVersion(request)).version
            version = await ready(registry, created)
            assert (created.ref, created.create_time) == (version.ref, version.create_time)
            assert (await registry.CreateVersion(request)).version == version
            assert (version.ref, version.labels["seed"], version.lineage) == (starter(seed), str(seed), request.lineage)
            assert (Path(version.artifact_uri) / "model.safetensors").is_file()
            servicer.policies[f"eval_{seed}"] = version.policy_id
        await registry.SetAlias(pb.SetAliasRequest(model="starter", alias="champion", number=1, reason="first"))

        promotion = pb.SetAliasRequest(model="starter", alias="champion", number=2, expected_number=1)
        with pytest.raises(FailedPrecondition, match="CreateGate"), rpc_errors():
            await registry.SetAlias(promotion)
        wanted = pb.CreateGateRequest(
            candidate=starter(2),
            candidate_evaluation_id="eval_2",
            champion_evaluation_id="eval_1",
            rules=pb.GateRules(guards=[pb.Guard(problems="composed/test", max_loss=0.01)], max_unsolved=2),
        )
        servicer.state = eval_pb2.Evaluation.STATE_RUNNING
        early = (await registry.CreateGate(wanted)).gate
        [*_, failed] = [reply.gate async for reply in registry.WatchGate(pb.WatchGateRequest(id=early.id))]
        assert failed.failure.message == "evaluation eval_2 is RUNNING; a gate needs one that SUCCEEDED"
        servicer.state = eval_pb2.Evaluation.STATE_SUCCEEDED
        created_gate = (await registry.CreateGate(wanted)).gate
        [*_, gate] = [reply.gate async for reply in registry.WatchGate(pb.WatchGateRequest(id=created_gate.id))]
        assert (gate.state, gate.champion, gate.candidate) == (pb.Gate.STATE_PASSED, starter(1), starter(2))
        assert gate.comparison.difference.low == pytest.approx(0.1)
        assert (gate.rules, gate.tries, gate.comparison.confidence) == (wanted.rules, 1, 0.95)
        assert [(guard.problems, guard.passed) for guard in gate.guards] == [("composed/test", True)]
        promotion.gate_id = gate.id
        model = (await registry.SetAlias(promotion)).model
        assert dict(model.aliases) == {"champion": 2}
        champion = await registry.GetVersion(pb.GetVersionRequest(model="starter", alias="champion"))
        assert champion.version.ref.number == 2

        page = await registry.ListAliasHistory(pb.ListAliasHistoryRequest(model="starter", page_size=1))
        assert [(change.from_number, change.to_number) for change in page.changes] == [(1, 2)]
        rest = pb.ListAliasHistoryRequest(model="starter", page_size=1, page_token=page.next_page_token)
        page = await registry.ListAliasHistory(rest)
        assert [(change.from_number, change.to_number) for change in page.changes] == [(0, 1)]
        assert page.next_page_token == ""
        assert (await registry.GetGate(pb.GetGateRequest(id=gate.id))).gate == gate
        assert list((await registry.ListGates(pb.ListGatesRequest(model="starter"))).gates) == [gate, failed]
        assert [m.name for m in (await registry.ListModels(pb.ListModelsRequest())).models] == ["starter"]
        versions = (await registry.ListVersions(pb.ListVersionsRequest(model="starter"))).versions
        assert [version.ref.number for version in versions] == [2, 1]
        with pytest.raises(FailedPrecondition, match="it was champion"), rpc_errors():
            await registry.DeleteVersion(pb.DeleteVersionRequest(model="starter", number=1))


async def test_wrong_calls_are_answered_in_a_sentence(machine: Machine, tmp_path: Path) -> None:
    async with machine.registry() as process:
        registry = process.stub
        with pytest.raises(NotFound, match="no model 'nobody'"), rpc_errors():
            await registry.GetModel(pb.GetModelRequest(name="nobody"))
        version = await ready(registry, (await registry.CreateVersion(create(tmp_path / "nowhere"))).version)
        assert version.state == pb.Version.STATE_FAILED
        assert "there is no folder" in version.failure.message
        await registry.DeleteVersion(pb.DeleteVersionRequest(model="starter", number=1))
        with pytest.raises(FailedPrecondition, match="given again"), rpc_errors():
            await registry.DeleteModel(pb.DeleteModelRequest(name="starter"))
        with pytest.raises(InvalidArgument) as refused, rpc_errors():
            await registry.CreateVersion(pb.CreateVersionRequest(model="Not A Name"))
        assert [violation.field for violation in refused.value.violations] == ["model", "source_uri"]
        with pytest.raises(InvalidArgument) as refused, rpc_errors():
            await registry.DeleteVersion(pb.DeleteVersionRequest(model="starter"))
        assert [violation.field for violation in refused.value.violations] == ["number"]
        with pytest.raises(InvalidArgument), rpc_errors():
            await registry.ListModels(pb.ListModelsRequest(page_token="nonsense"))


async def test_a_copy_that_was_killed_is_made_by_another_worker(machine: Machine, model_folder: ModelFolder) -> None:
    source = model_folder()
    slow = str(Path(__file__).with_name("slow_registry.py"))
    async with machine.registry(slow) as killed:
        version = (await killed.stub.CreateVersion(create(source, "req_1"))).version
        await until(lambda: [file for file in files_below(machine.folder / "artifacts") if file.name == "half"])
        await killed.kill()
    async with machine.registry() as survivor:
        pending = (await survivor.stub.CreateVersion(create(source, "req_1"))).version
        assert pending.ref == version.ref, "a retry finds the same version"
        done = await ready(survivor.stub, version)
        assert done.state == READY
        assert len(files_below(Path(done.artifact_uri))) == 2


async def test_flushall_loses_no_version(
    machine: Machine, model_folder: ModelFolder, redis: redis.asyncio.Redis
) -> None:
    slow = str(Path(__file__).with_name("slow_registry.py"))
    async with machine.registry(slow) as killed:
        made = [(await killed.stub.CreateVersion(create(model_folder(f"m{i}", i)))).version for i in range(4)]
        await killed.kill()
    await redis.flushall()
    async with machine.registry() as survivor:
        done = [await ready(survivor.stub, version) for version in made]
    assert [version.state for version in done] == [READY] * 4
    assert len({version.policy_id for version in done}) == 4
