"""The service as it is run: a process of its own, over gRPC, with SQLite and a folder."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import common_pb2
from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.ports import free_port
from ratchet_testing.services import serving

pytestmark = pytest.mark.integration


class Evaluations(eval_pb2_grpc.EvalServiceServicer):
    """eval-service's side of a gate."""

    def __init__(self) -> None:
        self.policies: dict[str, str] = {}
        self.state = eval_pb2.Evaluation.STATE_SUCCEEDED

    async def GetEvaluation(self, request: Any, context: Any) -> eval_pb2.GetEvaluationResponse:
        if request.id not in self.policies:
            raise NotFound(f"there is no evaluation {request.id}")
        spec = eval_pb2.EvaluationSpec(problems=common_pb2.ProblemSetRef(name="composed/test", digest="sha256:d"))
        return eval_pb2.GetEvaluationResponse(
            evaluation=eval_pb2.Evaluation(
                id=request.id, spec=spec, state=self.state, policy_id=self.policies[request.id]
            )
        )

    async def CompareEvaluations(self, request: Any, context: Any) -> eval_pb2.CompareEvaluationsResponse:
        return eval_pb2.CompareEvaluationsResponse(
            comparison=eval_pb2.Comparison(
                difference=common_pb2.Estimate(value=0.2, low=0.1, high=0.3), p_value=0.001, problems=100
            )
        )


@pytest.fixture
async def evaluations() -> AsyncIterator[tuple[Evaluations, str]]:
    servicer = Evaluations()

    def add(server: grpc.aio.Server) -> list[str]:
        eval_pb2_grpc.add_EvalServiceServicer_to_server(servicer, server)
        return ["ratchet.eval.v1.EvalService"]

    async with serving(add) as target:
        yield servicer, target


@pytest.fixture
async def registry(
    evaluations: tuple[Evaluations, str], tmp_path: Path
) -> AsyncIterator[registry_pb2_grpc.RegistryServiceStub]:
    port = free_port()
    settings = {
        "RATCHET_REGISTRY_PORT": str(port),
        "RATCHET_REGISTRY_METRICS_PORT": str(free_port()),
        "RATCHET_REGISTRY_EVAL_TARGET": evaluations[1],
        "DATABASE_URL": f"sqlite:///{tmp_path}/db/registry.db",
        "ARTIFACT_URL": str(tmp_path / "artifacts"),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "registry_service.main", env=os.environ | settings
    )
    try:
        await wait_healthy(f"127.0.0.1:{port}")
        async with channel(f"127.0.0.1:{port}") as door:
            yield registry_pb2_grpc.RegistryServiceStub(door)
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0


async def test_from_first_version_to_promotion(registry: Any, evaluations: Any, model_folder: Any) -> None:
    servicer, _ = evaluations
    for seed in (1, 2):
        request = pb.CreateVersionRequest(
            request_id=f"req_{seed}",
            model="starter",
            source_uri=str(model_folder(f"m{seed}", seed)),
            lineage=pb.Lineage(base="starter@1", run_id="run_1", step=3),
            labels={"seed": str(seed)},
        )
        version = (await registry.CreateVersion(request)).version
        assert (await registry.CreateVersion(request)).version == version
        assert (version.number, version.labels["seed"], version.lineage.step) == (seed, str(seed), 3)
        assert (Path(version.artifact_uri) / "model.safetensors").is_file()
        servicer.policies[f"eval_{seed}"] = version.policy_id
    await registry.SetAlias(pb.SetAliasRequest(model="starter", alias="champion", version=1, reason="first"))

    promotion = pb.SetAliasRequest(model="starter", alias="champion", version=2, reason="better")
    with pytest.raises(FailedPrecondition, match="CreateGate"), rpc_errors():
        await registry.SetAlias(promotion)
    ask = pb.CreateGateRequest(
        model="starter", candidate_version=2, candidate_evaluation="eval_2", champion_evaluation="eval_1"
    )
    servicer.state = eval_pb2.Evaluation.STATE_RUNNING
    with pytest.raises(FailedPrecondition, match="eval_2 is RUNNING"), rpc_errors():
        await registry.CreateGate(ask)
    servicer.state = eval_pb2.Evaluation.STATE_SUCCEEDED
    gate = (await registry.CreateGate(ask)).gate
    assert gate.passed
    assert gate.difference.low == pytest.approx(0.1)
    promotion.gate_id = gate.id
    model = (await registry.SetAlias(promotion)).model
    assert dict(model.aliases) == {"champion": 2}
    champion = await registry.GetVersion(pb.GetVersionRequest(model="starter", alias="champion"))
    assert champion.version.number == 2

    page = await registry.ListAliasHistory(pb.ListAliasHistoryRequest(model="starter", page_size=1))
    assert [(change.from_version, change.to_version) for change in page.changes] == [(1, 2)]
    rest = pb.ListAliasHistoryRequest(model="starter", page_size=1, page_token=page.next_page_token)
    page = await registry.ListAliasHistory(rest)
    assert [(change.from_version, change.to_version) for change in page.changes] == [(0, 1)]
    assert page.next_page_token == ""
    assert (await registry.GetGate(pb.GetGateRequest(id=gate.id))).gate == gate
    assert list((await registry.ListGates(pb.ListGatesRequest(model="starter"))).gates) == [gate]
    assert [m.name for m in (await registry.ListModels(pb.ListModelsRequest())).models] == ["starter"]
    assert [v.number for v in (await registry.ListVersions(pb.ListVersionsRequest(model="starter"))).versions] == [2, 1]


async def test_wrong_calls_are_answered_in_a_sentence(registry: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no model 'nobody'"), rpc_errors():
        await registry.GetModel(pb.GetModelRequest(name="nobody"))
    with pytest.raises(NotFound, match="no folder"), rpc_errors():
        await registry.CreateVersion(pb.CreateVersionRequest(model="starter", source_uri=str(tmp_path / "nowhere")))
    with pytest.raises(InvalidArgument) as refused, rpc_errors():
        await registry.CreateVersion(pb.CreateVersionRequest(model="Not A Name", source_uri="x"))
    assert [violation.field for violation in refused.value.violations] == ["model"]
    with pytest.raises(InvalidArgument), rpc_errors():
        await registry.ListModels(pb.ListModelsRequest(page_token="nonsense"))
