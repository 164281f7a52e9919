"""The service as it is run: a process of its own, over gRPC, with SQLite and Redis; what it measures with is away."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.eval.v1 import eval_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.ports import free_port

pytestmark = pytest.mark.integration


@pytest.fixture
async def service(redis_url: str, redis: Any, tmp_path: Path) -> AsyncIterator[eval_pb2_grpc.EvalServiceStub]:
    port, nowhere = free_port(), f"127.0.0.1:{free_port()}"
    settings = {
        "RATCHET_EVAL_PORT": str(port),
        "RATCHET_EVAL_METRICS_PORT": "0",
        "RATCHET_EVAL_ROLLOUT_TARGET": nowhere,
        "RATCHET_EVAL_SANDBOX_TARGET": nowhere,
        "RATCHET_EVAL_REGISTRY_TARGET": nowhere,
        "RATCHET_SOURCES": "/models",
        "REDIS_URL": redis_url,
        "DATABASE_URL": f"sqlite:///{tmp_path}/db/eval.db",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "eval_service.main", env=os.environ | settings)
    try:
        await wait_healthy(f"127.0.0.1:{port}")
        async with channel(f"127.0.0.1:{port}") as door:
            yield eval_pb2_grpc.EvalServiceStub(door)
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0


def spec(**fields: Any) -> pb.EvaluationSpec:
    model, problems = model_pb2.ModelRef(uri="/models/a"), problem_pb2.ProblemSetRef(name="basics", limit=3)
    return pb.EvaluationSpec(**({"model": model, "problems": problems} | fields))


async def test_it_waits_for_the_platform_until_cancelled(service: Any) -> None:
    request = pb.CreateEvaluationRequest(request_id="req_1", spec=spec(samples_per_problem=2))
    created = (await service.CreateEvaluation(request)).evaluation
    assert (await service.CreateEvaluation(request)).evaluation.id == created.id
    assert (created.spec.max_tokens, created.spec.temperature, list(created.spec.k)) == (512, 1.0, [1])

    seen = []
    async for reply in service.WatchEvaluation(pb.WatchEvaluationRequest(id=created.id)):
        seen.append(reply.evaluation.state)
        if reply.evaluation.state == pb.Evaluation.STATE_RUNNING:
            await service.CancelEvaluation(pb.CancelEvaluationRequest(id=created.id))
    assert seen[-2:] == [pb.Evaluation.STATE_RUNNING, pb.Evaluation.STATE_CANCELLED]

    ended = (await service.GetEvaluation(pb.GetEvaluationRequest(id=created.id))).evaluation
    assert ended.HasField("start_time")
    assert ended.HasField("end_time")
    assert [e.id for e in (await service.ListEvaluations(pb.ListEvaluationsRequest())).evaluations] == [created.id]
    assert list((await service.ListSamples(pb.ListSamplesRequest(evaluation_id=created.id))).samples) == []
    with pytest.raises(FailedPrecondition, match="cancelled"), rpc_errors():
        await service.CompareEvaluations(pb.CompareEvaluationsRequest(baseline_id=created.id, candidate_id=created.id))
    await service.DeleteEvaluation(pb.DeleteEvaluationRequest(id=created.id))
    assert list((await service.ListEvaluations(pb.ListEvaluationsRequest())).evaluations) == []


async def test_stopped_under_way_it_ends_well(service: Any) -> None:
    """The fixture asks for exit code 0."""
    await service.CreateEvaluation(pb.CreateEvaluationRequest(spec=spec()))
    await asyncio.sleep(0.5)


async def test_wrong_calls_are_answered_in_a_sentence(service: Any) -> None:
    with pytest.raises(NotFound, match="no evaluation"), rpc_errors():
        await service.GetEvaluation(pb.GetEvaluationRequest(id="eval_nowhere"))
    with pytest.raises(InvalidArgument) as refused, rpc_errors():
        await service.CreateEvaluation(pb.CreateEvaluationRequest(spec=pb.EvaluationSpec(k=[9])))
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["spec.model", "spec.problems.name", "spec.k[0]"]
    for name in ("mbppp/train/x", "/nowhere/set.jsonl"):
        with pytest.raises(InvalidArgument) as refused, rpc_errors():
            bad = spec(problems=problem_pb2.ProblemSetRef(name=name))
            await service.CreateEvaluation(pb.CreateEvaluationRequest(spec=bad))
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]
