"""Rows of the tables to values of the domain, and back."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from eval_service.domain.evaluation import Evaluation, PassAtK, ResolvedModel, Sample, State
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef
from ratchet_kit.errors import Failure
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef
from ratchet_kit.sql import hold_of, hold_row
from ratchet_kit.statistics import Estimate

_KINDS: dict[type[AnyModel], str] = {VersionRef: "version", AliasRef: "alias", BareModel: "model", Location: "uri"}


def evaluation_row(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "id": evaluation.id,
        "spec": _spec_to_json(evaluation.spec),
        "samples_per_problem": evaluation.spec.samples_per_problem,
        "model": asdict(evaluation.model),
        "state": str(evaluation.state),
        "failure": asdict(evaluation.failure) if evaluation.failure else None,
        "policy_id": evaluation.policy_id,
        "problems_total": evaluation.problems_total,
        "pass_at_k": [{"k": item.k, **asdict(item.estimate)} for item in evaluation.pass_at_k],
        "create_time": evaluation.create_time,
        "start_time": evaluation.start_time,
        "end_time": evaluation.end_time,
    } | hold_row(evaluation.hold)


def to_evaluation(row: Row[Any]) -> Evaluation:
    return Evaluation(
        id=row.id,
        spec=_spec_from_json(row.spec),
        model=ResolvedModel(**row.model),
        create_time=row.create_time,
        state=State(row.state),
        failure=Failure(**row.failure) if row.failure else None,
        policy_id=row.policy_id,
        problems_total=row.problems_total,
        pass_at_k=tuple(
            PassAtK(item["k"], Estimate(item["value"], item["low"], item["high"])) for item in row.pass_at_k
        ),
        start_time=row.start_time,
        end_time=row.end_time,
        hold=hold_of(row),
    )


def sample_row(evaluation_id: str, sample: Sample) -> dict[str, Any]:
    texts = {"completion": _storable(sample.completion), "detail": _storable(sample.detail)}
    return asdict(sample) | texts | {"evaluation_id": evaluation_id}


def to_sample(row: Row[Any]) -> Sample:
    return Sample(
        problem_id=row.problem_id,
        index=row._mapping["index"],
        completion=row.completion,
        verdict=row.verdict,
        tests_passed=row.tests_passed,
        tests_total=row.tests_total,
        policy_id=row.policy_id,
        detail=row.detail,
        forgeable=row.forgeable,
    )


def _spec_to_json(spec: EvaluationSpec) -> dict[str, Any]:
    return asdict(spec) | {"model": {"kind": _KINDS[type(spec.model)], "text": str(spec.model)}}


def _spec_from_json(spec: dict[str, Any]) -> EvaluationSpec:
    model, problems = _model(**spec["model"]), ProblemSetRef(**spec["problems"])
    return EvaluationSpec(**spec | {"model": model, "problems": problems, "k": tuple(spec["k"])})


def _model(kind: str, text: str) -> AnyModel:
    match kind:
        case "version":
            return VersionRef.parse(text)
        case "alias":
            return AliasRef.parse(text)
        case "model":
            return BareModel(text)
        case _:
            return Location(text)


def _storable(text: str) -> str:
    """Without what PostgreSQL cannot hold: a model may write NUL and halves of surrogate pairs."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
