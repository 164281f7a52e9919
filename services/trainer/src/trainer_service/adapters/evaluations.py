"""Suites and Evaluations by eval-service."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import grpc

from ratchet.common.v1 import problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.eval.v1 import eval_pb2_grpc
from ratchet_environments import convert as environments
from ratchet_kit import refs
from ratchet_kit.errors import (
    Aborted,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import AnyModel, Location
from ratchet_kit.statistics import estimate_from_proto
from trainer_service.domain.spec.spec import ProblemSetRef, PromptForm, RunSpec, Validation, ValidationSet
from trainer_service.domain.work.ports import Measured, MeasuredProblems

DEADLINE_S = 20
_OURS = {"samples_per_problem": "samples", "k": "samples", "problems": "suite", "suite": "suite"}
"""Fields of their spec, by the names that they have in a run's `validate`."""
_OPEN = (pb.Evaluation.STATE_QUEUED, pb.Evaluation.STATE_RUNNING)


class GrpcEvaluations:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = eval_pb2_grpc.EvalServiceStub(channel)

    async def check(self, spec: RunSpec) -> Validation:
        assert spec.validate is not None
        assert spec.base is not None
        request = pb.CreateEvaluationRequest(spec=_spec(spec, spec.base), validate_only=True)
        try:
            with _errors():
                reply = await self._stub.CreateEvaluation(request, timeout=DEADLINE_S)
        except InvalidArgument as error:
            violations = [FieldViolation(_named(one.field), one.description) for one in error.violations]
            violations = violations or [FieldViolation("validate.suite", error.message)]
            raise InvalidArgument(error.message, violations) from error
        pinned = [one.name for one in _sets(reply.evaluation.spec)]
        entries = (
            ValidationSet(ProblemSetRef(name, entry.problems.limit), entry.weight)
            for name, entry in zip(pinned, spec.validate.suite, strict=True)
        )
        return Validation(tuple(entries), spec.validate.samples)

    async def create(self, request_id: str, spec: RunSpec, uri: str) -> Measured:
        request = pb.CreateEvaluationRequest(request_id=request_id, spec=_spec(spec, Location(uri)))
        request.spec.display_name = request_id  # which names the run and the step
        with _errors():
            return _measured((await self._stub.CreateEvaluation(request, timeout=DEADLINE_S)).evaluation)

    async def get(self, id: str) -> Measured:
        return _measured(await self._get(id))

    async def problems(self, id: str) -> MeasuredProblems:
        digests = sorted(one.digest for one in _sets((await self._get(id)).spec))
        with _errors():
            request = pb.GetMeasurementsRequest(evaluation_id=id)
            reply = await self._stub.GetMeasurements(request, timeout=DEADLINE_S)
        both = f"sha256:{hashlib.sha256(' '.join(digests).encode()).hexdigest()}"
        return MeasuredProblems(digests[0] if len(digests) == 1 else both, tuple(sorted(reply.fingerprints)))

    async def cancel(self, id: str) -> None:
        try:
            with _errors():
                await self._stub.CancelEvaluation(pb.CancelEvaluationRequest(id=id), timeout=DEADLINE_S)
        except (NotFound, FailedPrecondition):
            pass

    async def _get(self, id: str) -> pb.Evaluation:
        with _errors():
            return (await self._stub.GetEvaluation(pb.GetEvaluationRequest(id=id), timeout=DEADLINE_S)).evaluation


def _spec(spec: RunSpec, model: AnyModel) -> pb.EvaluationSpec:
    """As the run validates: its prompts, its environment, its lengths and its temperature. An export has the chat
    template of the run."""
    validate, hyper = spec.validate, spec.hyperparameters
    assert validate is not None
    forms = {PromptForm.CHAT: pb.Prompting.FORM_CHAT, PromptForm.COMPLETION: pb.Prompting.FORM_COMPLETION}
    form = next((number for name, number in forms.items() if name == spec.prompt_form), pb.Prompting.FORM_UNSPECIFIED)
    return pb.EvaluationSpec(
        model=refs.model_to_proto(model),
        suite=[pb.SuiteEntry(problems=_set(one.problems), weight=one.weight) for one in validate.suite],
        samples_per_problem=validate.samples,
        k=[1] if validate.samples <= 1 else [1, validate.samples],
        temperature=spec.temperature_at(spec.steps),
        max_tokens=hyper.max_response_tokens,
        seed=spec.seed,
        prompting=pb.Prompting(form=form),
        environment=environments.spec_to_proto(spec.environment) if spec.environment else None,
        system=spec.system,
        examples=_set(spec.examples) if spec.examples else None,
        engine_model=spec.engine_model if isinstance(model, Location) else "",
    )


def _set(ref: ProblemSetRef) -> problem_pb2.ProblemSetRef:
    return problem_pb2.ProblemSetRef(name=ref.name, limit=ref.limit)


def _sets(spec: pb.EvaluationSpec) -> Sequence[problem_pb2.ProblemSetRef]:
    return [entry.problems for entry in spec.suite] or [spec.problems]


def _named(field: str) -> str:
    first, _, rest = field.removeprefix("spec.").partition(".")
    name, _, place = first.partition("[")
    ours = _OURS.get(name, "")
    if not ours:
        return f"validate.{first}"
    return f"validate.{ours}{f'[{place}' if place else ''}{f'.{rest}' if rest and place else ''}"


def _measured(one: pb.Evaluation) -> Measured:
    if one.state in _OPEN:
        done = f"{one.samples_done} of {one.samples_total or '?'} samples"
        return Measured(one.id, one.policy_id, progress=f"waiting for {one.waits_for}" if one.waits_for else done)
    first = next((each.estimate for each in one.pass_at_k if each.k == 1), None)
    if one.state != pb.Evaluation.STATE_SUCCEEDED or first is None:
        state = pb.Evaluation.State.Name(one.state).removeprefix("STATE_")
        return Measured(one.id, one.policy_id, is_over=True, failure=one.failure.message or f"it is {state}")
    return Measured(one.id, one.policy_id, is_over=True, score=estimate_from_proto(first))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        with rpc_errors():
            yield
    except (Aborted, DeadlineExceeded, ResourceExhausted) as error:  # the same request may pass later
        raise Unavailable(f"eval-service is busy: {error.message}") from error
