"""Protobuf to the domain and back. Pure."""

from eval_service.domain.comparison import Comparison
from eval_service.domain.evaluation import PassAtK, Sample, State
from eval_service.domain.evaluations import Report
from eval_service.domain.spec import AliasRef, EvaluationSpec, ModelRef, PathRef, ProblemSetRef, VersionRef
from eval_service.domain.statistics import Estimate
from ratchet.common.v1 import common_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2
from ratchet_kit.times import timestamp_to_proto

_DEFAULT_MAX_TOKENS = 512
_STATES = {state: pb.Evaluation.State.Value(f"STATE_{state}") for state in State}


def spec_from_proto(spec: pb.EvaluationSpec) -> EvaluationSpec:
    """Fills in what the proto says for fields that were not set."""
    return EvaluationSpec(
        model=_model_from_proto(spec.model),
        problems=ProblemSetRef(spec.problems.name, spec.problems.limit),
        samples_per_problem=spec.samples_per_problem or 1,
        k=tuple(spec.k) or (1,),
        temperature=spec.temperature if spec.HasField("temperature") else 1.0,
        max_tokens=spec.max_tokens or _DEFAULT_MAX_TOKENS,
        seed=spec.seed,
    )


def report_to_proto(report: Report) -> pb.Evaluation:
    evaluation = report.evaluation
    message = pb.Evaluation(
        id=evaluation.id,
        spec=_spec_to_proto(evaluation.spec),
        state=_STATES[evaluation.state],
        error=evaluation.error,
        policy_id=evaluation.policy_id,
        problems_done=report.progress.problems_done,
        problems_total=evaluation.problems_total,
        pass_at_k=[_pass_at_k_to_proto(item) for item in evaluation.pass_at_k],
        verdicts=report.progress.verdicts,
        create_time=timestamp_to_proto(evaluation.create_time),
    )
    if evaluation.start_time is not None:
        message.start_time.CopyFrom(timestamp_to_proto(evaluation.start_time))
    if evaluation.end_time is not None:
        message.end_time.CopyFrom(timestamp_to_proto(evaluation.end_time))
    return message


def sample_to_proto(sample: Sample) -> pb.Sample:
    return pb.Sample(
        problem_id=sample.problem_id,
        index=sample.index,
        completion=sample.completion,
        verdict=sandbox_pb2.Verdict.Value(f"VERDICT_{sample.verdict}"),
        tests_passed=sample.tests_passed,
        tests_total=sample.tests_total,
        policy_id=sample.policy_id,
        detail=sample.detail,
    )


def comparison_to_proto(comparison: Comparison) -> pb.Comparison:
    return pb.Comparison(
        baseline_evaluation=comparison.baseline_evaluation,
        candidate_evaluation=comparison.candidate_evaluation,
        baseline=_estimate_to_proto(comparison.baseline),
        candidate=_estimate_to_proto(comparison.candidate),
        difference=_estimate_to_proto(comparison.difference),
        p_value=comparison.p_value,
        problems=comparison.problems,
    )


def _model_from_proto(ref: common_pb2.ModelRef) -> ModelRef | None:
    match ref.WhichOneof("ref"):
        case "version":
            return VersionRef(ref.version)
        case "alias":
            return AliasRef(ref.alias)
        case "path":
            return PathRef(ref.path)
        case _:
            return None


def _model_to_proto(ref: ModelRef | None) -> common_pb2.ModelRef:
    match ref:
        case VersionRef(text):
            return common_pb2.ModelRef(version=text)
        case AliasRef(text):
            return common_pb2.ModelRef(alias=text)
        case PathRef(text):
            return common_pb2.ModelRef(path=text)
        case None:
            return common_pb2.ModelRef()


def _spec_to_proto(spec: EvaluationSpec) -> pb.EvaluationSpec:
    problems = common_pb2.ProblemSetRef(name=spec.problems.name, digest=spec.problems.digest, limit=spec.problems.limit)
    return pb.EvaluationSpec(
        model=_model_to_proto(spec.model),
        problems=problems,
        samples_per_problem=spec.samples_per_problem,
        k=spec.k,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        seed=spec.seed,
    )


def _pass_at_k_to_proto(item: PassAtK) -> pb.PassAtK:
    return pb.PassAtK(k=item.k, estimate=_estimate_to_proto(item.estimate))


def _estimate_to_proto(estimate: Estimate) -> common_pb2.Estimate:
    return common_pb2.Estimate(value=estimate.value, low=estimate.low, high=estimate.high)
