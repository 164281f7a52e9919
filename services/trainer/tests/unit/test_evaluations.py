"""GrpcEvaluations: a run's checkpoints as eval-service is asked for them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import failure_pb2, problem_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound, Unavailable
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import Estimate
from trainer_service.adapters.evaluations import GrpcEvaluations
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef, Validation, ValidationSet
from trainer_service.domain.work.ports import Measured, MeasuredProblems

SUITE = Validation(
    (ValidationSet(ProblemSetRef("mine/test"), 0.7), ValidationSet(ProblemSetRef("humaneval+", 20), 0.3)), 4
)


class EvalService:
    """Answers with `evaluation`, or `error`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.evaluation = pb.Evaluation(id="eval_1", state=pb.Evaluation.STATE_QUEUED)
        self.error: tuple[grpc.StatusCode, str] | None = None

    async def CreateEvaluation(self, request: pb.CreateEvaluationRequest, timeout: float) -> Any:
        self._answer(request)
        return pb.CreateEvaluationResponse(evaluation=self.evaluation)

    async def GetEvaluation(self, request: pb.GetEvaluationRequest, timeout: float) -> Any:
        self._answer(request)
        return pb.GetEvaluationResponse(evaluation=self.evaluation)

    async def GetMeasurements(self, request: pb.GetMeasurementsRequest, timeout: float) -> Any:
        self._answer(request)
        return pb.GetMeasurementsResponse(fingerprints=["b", "a"])

    async def CancelEvaluation(self, request: pb.CancelEvaluationRequest, timeout: float) -> Any:
        self._answer(request)
        return pb.CancelEvaluationResponse()

    def _answer(self, request: Any) -> None:
        self.asked.append(request)
        if self.error:
            code, message = self.error
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), message)


@pytest.fixture
async def service() -> EvalService:
    return EvalService()


@pytest.fixture
async def evaluations(service: EvalService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GrpcEvaluations]:
    async with grpc.aio.insecure_channel("localhost:1") as channel:
        found = GrpcEvaluations(channel)
        monkeypatch.setattr(found, "_stub", service)
        yield found


def problems(name: str, limit: int | None = None, digest: str = "") -> problem_pb2.ProblemSetRef:
    return problem_pb2.ProblemSetRef(name=name, limit=limit, digest=digest)


async def test_a_checkpoint_is_measured_as_the_run_validates(
    service: EvalService, evaluations: GrpcEvaluations, make_complete_spec: Any
) -> None:
    spec = make_complete_spec(
        validate=SUITE,
        seed=3,
        system="Short.",
        hyperparameters=Hyperparameters(max_response_tokens=64, temperature=0.5),
    )
    spec = replace(spec, base=VersionRef("starter", 1))
    made = await evaluations.create("run_1-step-2-attempt-1", spec, "/exports/2")
    assert made == Measured("eval_1", progress="0 of ? samples")
    (request,) = service.asked
    assert request.request_id == "run_1-step-2-attempt-1"
    asked = request.spec
    assert asked.display_name == request.request_id
    assert asked.model.uri == "/exports/2"
    assert [(one.problems, one.weight) for one in asked.suite] == [
        (problems("mine/test"), 0.7),
        (problems("humaneval+", 20), 0.3),
    ]
    assert (asked.samples_per_problem, list(asked.k), asked.seed) == (4, [1, 4], 3)
    assert (asked.temperature, asked.max_tokens, asked.system) == (0.5, 64, "Short.")
    assert asked.prompting.form == pb.Prompting.FORM_CHAT
    assert asked.engine_model == "starter", "an export calls tools as its base does"


async def test_only_one_that_succeeded_has_a_score(service: EvalService, evaluations: GrpcEvaluations) -> None:
    def shown(**values: Any) -> None:
        service.evaluation = pb.Evaluation(id="eval_1", policy_id="sha256:p", **values)

    shown(state=pb.Evaluation.STATE_QUEUED, waits_for="a worker")
    assert await evaluations.get("eval_1") == Measured("eval_1", "sha256:p", progress="waiting for a worker")
    shown(state=pb.Evaluation.STATE_RUNNING, samples_done=3, samples_total=8)
    assert await evaluations.get("eval_1") == Measured("eval_1", "sha256:p", progress="3 of 8 samples")
    failure = failure_pb2.Failure(code="UNAVAILABLE", message="the sandbox was away")
    shown(state=pb.Evaluation.STATE_FAILED, failure=failure)
    assert await evaluations.get("eval_1") == Measured(
        "eval_1", "sha256:p", is_over=True, failure="the sandbox was away"
    )
    shown(state=pb.Evaluation.STATE_CANCELLED)
    assert (await evaluations.get("eval_1")).failure == "it is CANCELLED"
    estimates = {4: statistics_pb2.Estimate(value=0.9), 1: statistics_pb2.Estimate(value=0.5, low=0.25, high=0.75)}
    found = [pb.PassAtK(k=k, estimate=estimate) for k, estimate in estimates.items()]
    shown(state=pb.Evaluation.STATE_SUCCEEDED, pass_at_k=found)
    assert await evaluations.get("eval_1") == Measured(
        "eval_1", "sha256:p", is_over=True, score=Estimate(0.5, 0.25, 0.75)
    )


async def test_sets_are_pinned_and_known_by_their_problems(
    service: EvalService, evaluations: GrpcEvaluations, make_complete_spec: Any
) -> None:
    pinned = [problems("mine@2/test", digest="sha256:b"), problems("humaneval+", 20, "sha256:a")]
    service.evaluation.spec.suite.extend(pb.SuiteEntry(problems=one) for one in pinned)
    checked = await evaluations.check(make_complete_spec(validate=SUITE))
    names = ("mine@2/test", "humaneval+")
    suite = (
        replace(one, problems=replace(one.problems, name=name)) for one, name in zip(SUITE.suite, names, strict=True)
    )
    assert checked == replace(SUITE, suite=tuple(suite))
    assert service.asked[0].validate_only
    both = await evaluations.problems("eval_1")
    assert both.fingerprints == ("a", "b")
    assert both.digest.startswith("sha256:")
    del service.evaluation.spec.suite[:]
    service.evaluation.spec.problems.CopyFrom(pinned[0])
    assert await evaluations.problems("eval_1") == MeasuredProblems("sha256:b", ("a", "b"))


async def test_faults_are_named_as_the_run_names_them(
    evaluations: GrpcEvaluations, make_complete_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = ("spec.suite[1].problems.name", "spec.problems.name", "spec.samples_per_problem", "spec.environment.name")

    async def refuse(request: object, timeout: float) -> None:
        raise InvalidArgument("no", [FieldViolation(field, "is wrong") for field in fields])

    monkeypatch.setattr(evaluations, "_stub", SimpleNamespace(CreateEvaluation=refuse))
    with pytest.raises(InvalidArgument) as caught:
        await evaluations.check(make_complete_spec(validate=SUITE))
    assert [one.field for one in caught.value.violations] == [
        "validate.suite[1].problems.name",
        "validate.suite",
        "validate.samples",
        "validate.environment",
    ]


@pytest.mark.parametrize("code", [grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_what_may_pass_is_unavailable(
    service: EvalService, evaluations: GrpcEvaluations, code: grpc.StatusCode
) -> None:
    service.error = (code, "not now")
    with pytest.raises(Unavailable, match="not now"):
        await evaluations.get("eval_1")


async def test_one_that_is_over_or_gone_is_cancelled(service: EvalService, evaluations: GrpcEvaluations) -> None:
    for code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
        service.error = (code, "no")
        await evaluations.cancel("eval_1")
    service.error = (grpc.StatusCode.NOT_FOUND, "no")
    with pytest.raises(NotFound):
        await evaluations.get("eval_1")
