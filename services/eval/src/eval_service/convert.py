"""Protobuf to the domain and back. Pure."""

from eval_service.domain.evaluation import PassAtK, Sample, State
from eval_service.domain.evaluations import Report
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import AnyModel, BareModel
from ratchet_kit.statistics import estimate_to_proto
from ratchet_kit.times import timestamp_to_proto

_STATES = {state: pb.Evaluation.State.Value(f"STATE_{state.name}") for state in State}


def spec_from_proto(message: pb.EvaluationSpec) -> EvaluationSpec:
    """Fills in what the proto says for fields that were not set. Raises InvalidArgument that names every fault."""
    faults = Faults()
    model = faults.read("spec.model", refs.model_from_proto, message.model)
    # Read even without a model, for its other faults; nobody sees it then.
    spec = faults.read("spec", lambda spec, _: _spec(spec, model or BareModel("")), message)
    faults.raise_if_any("the evaluation cannot be made")
    assert spec is not None
    return spec


def _spec(message: pb.EvaluationSpec, model: AnyModel) -> EvaluationSpec:
    limit = message.problems.limit if message.problems.HasField("limit") else None
    return EvaluationSpec(
        model=model,
        problems=ProblemSetRef(message.problems.name, limit),
        samples_per_problem=message.samples_per_problem if message.HasField("samples_per_problem") else 1,
        k=tuple(message.k) or (1,),
        temperature=message.temperature if message.HasField("temperature") else 1.0,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else 512,
        seed=message.seed,
    )


def report_to_proto(report: Report) -> pb.Evaluation:
    evaluation = report.evaluation
    return pb.Evaluation(
        id=evaluation.id,
        spec=_spec_to_proto(evaluation.spec),
        state=_STATES[evaluation.state],
        failure=failure_to_proto(evaluation.failure),
        policy_id=evaluation.policy_id,
        problems_done=report.progress.problems_done,
        problems_total=evaluation.problems_total,
        pass_at_k=[_pass_at_k_to_proto(item) for item in evaluation.pass_at_k],
        verdicts=report.progress.verdicts,
        forgeable_passes=report.progress.forgeable_passes,
        create_time=timestamp_to_proto(evaluation.create_time),
        start_time=timestamp_to_proto(evaluation.start_time) if evaluation.start_time else None,
        end_time=timestamp_to_proto(evaluation.end_time) if evaluation.end_time else None,
    )


def sample_to_proto(sample: Sample) -> pb.Sample:
    return pb.Sample(
        problem_id=sample.problem_id,
        index=sample.index,
        completion=sample.completion,
        verdict=verdict_pb2.Verdict.Value(f"VERDICT_{sample.verdict}"),
        tests_passed=sample.tests_passed,
        tests_total=sample.tests_total,
        policy_id=sample.policy_id,
        detail=sample.detail,
        forgeable=sample.forgeable,
    )


def _spec_to_proto(spec: EvaluationSpec) -> pb.EvaluationSpec:
    problems = spec.problems
    return pb.EvaluationSpec(
        model=refs.model_to_proto(spec.model),
        problems=problem_pb2.ProblemSetRef(name=problems.name, digest=problems.digest, limit=problems.limit),
        samples_per_problem=spec.samples_per_problem,
        k=spec.k,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        seed=spec.seed,
    )


def _pass_at_k_to_proto(item: PassAtK) -> pb.PassAtK:
    return pb.PassAtK(k=item.k, estimate=estimate_to_proto(item.estimate))
