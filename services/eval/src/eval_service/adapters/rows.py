"""Rows of the tables to values of the domain, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from eval_service.adapters.tables import evaluations
from eval_service.domain.evaluation import Added, Evaluation, Pace, References, ResolvedModel, State
from eval_service.domain.sample import FailureClass, Judgement, ProblemKey, Sample, SampleKey
from eval_service.domain.score import BenchmarkScore, EpisodeMeans, Exclusion, Facts, PassAtK, Score, Slice
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, RewardJudge, SuiteEntry
from ratchet_environments import EnvironmentSpec
from ratchet_environments.failures import FailedTest
from ratchet_kit.errors import Failure
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef
from ratchet_kit.sql import hold_of, hold_row, row_of, value_of
from ratchet_kit.statistics import Estimate
from ratchet_kit.text import storable
from ratchet_kit.usage import Usage

_USAGE = TypeAdapter(Usage)
_FORECAST = TypeAdapter[Usage | None](Usage | None)
_ENVIRONMENT = TypeAdapter(EnvironmentSpec)
_KINDS: dict[type[AnyModel], str] = {VersionRef: "version", AliasRef: "alias", BareModel: "model", Location: "uri"}


def evaluation_row(evaluation: Evaluation) -> dict[str, Any]:
    spec, pace, added = evaluation.spec, evaluation.pace, evaluation.added
    return row_of(
        evaluation,
        evaluations,
        spec=_spec_to_json(spec),
        model=asdict(evaluation.model) if evaluation.model else None,
        model_name=spec.model_name,
        set_names=f"|{'|'.join(spec.names)}|",
        failure=asdict(evaluation.failure) if evaluation.failure else None,
        score=asdict(evaluation.score) if evaluation.score else None,
        notices=list(evaluation.notices),
        added_samples=added.samples,
        added_time=added.time,
        references_tried=evaluation.references.tried,
        references_total=evaluation.references.total,
        pace_time=pace.time if pace else None,
        pace_samples=pace.samples if pace else None,
        usage=_USAGE.dump_json(evaluation.usage).decode(),
        forecast=_FORECAST.dump_json(evaluation.forecast).decode(),
        actor=evaluation.actor,
        **hold_row(evaluation.hold),
    )


def to_evaluation(row: Row[Any]) -> Evaluation:
    return value_of(
        Evaluation,
        row,
        spec=_spec_from_json(row.spec),
        model=ResolvedModel(**row.model) if row.model else None,
        state=State(row.state),
        failure=Failure(**row.failure) if row.failure else None,
        score=_score(row.score) if row.score else None,
        notices=tuple(row.notices),
        added=Added(row.added_samples, row.added_time),
        references=References(row.references_tried, row.references_total),
        pace=Pace(row.pace_time, row.pace_samples) if row.pace_time else None,
        usage=_USAGE.validate_json(row.usage),
        forecast=_FORECAST.validate_json(row.forecast),
        actor=row.actor,
        hold=hold_of(row),
    )


# Problems and samples


def facts_row(evaluation_id: str, facts: Facts) -> dict[str, Any]:
    key = {"evaluation_id": evaluation_id} | asdict(facts.key)
    texts = {"family": facts.family, "fingerprint": facts.fingerprint, "excluded": storable(facts.excluded)}
    texts |= {"tests": facts.tests}
    return key | texts | {"slices": list(facts.slices)}


def to_facts(row: Row[Any]) -> Facts:
    return Facts(
        ProblemKey(row.benchmark, row.problem_id),
        row.family,
        row.fingerprint,
        tuple(row.slices),
        row.excluded,
        row.tests,
    )


def sample_row(evaluation_id: str, sample: Sample) -> dict[str, Any]:
    return {
        "evaluation_id": evaluation_id,
        **asdict(sample.key),
        "policy_id": sample.policy_id,
        "is_program": sample.is_program,
        "generation_seconds": _seconds(sample.generation_time),
        "tool_errors": sample.tool_errors,
        "record": sample.record or None,
        **judgement_row(sample),
    }


def judgement_row(sample: Sample) -> dict[str, Any]:
    """What changes when a sample is judged."""
    judgement = sample.judgement or Judgement("", 0, 0)
    return {
        "completion": storable(sample.completion),
        "request": sample.request or None,
        "tokens": sample.tokens,
        "truncated": sample.truncated,
        "turns": sample.turns,
        "verdict": judgement.verdict,
        "tests_passed": judgement.tests_passed,
        "tests_total": judgement.tests_total,
        "detail": storable(judgement.detail),
        "forgeable": judgement.forgeable,
        "failure": str(judgement.failure or ""),
        "cpu_seconds": _seconds(judgement.cpu_time),
        "failed_tests": [
            {name: storable(text) for name, text in asdict(one).items()} for one in judgement.failed_tests
        ],
        "held_out_failed": judgement.held_out_failed,
    }


def to_sample(row: Row[Any]) -> Sample:
    judgement = Judgement(
        row.verdict,
        row.tests_passed,
        row.tests_total,
        row.detail,
        row.forgeable,
        failure_of(row.failure),
        _timedelta(row.cpu_seconds),
        tuple(FailedTest(**one) for one in row.failed_tests),
        row.held_out_failed,
    )
    return Sample(
        key=SampleKey(row.benchmark, row.problem_id, row._mapping["index"]),
        completion=row.completion,
        policy_id=row.policy_id,
        is_program=row.is_program,
        request=row.request or "",
        tokens=row.tokens,
        truncated=row.truncated,
        generation_time=_timedelta(row.generation_seconds),
        judgement=judgement if row.verdict else None,
        turns=row.turns,
        tool_errors=row.tool_errors,
        recorded=row.recorded,
    )


def failure_of(text: str) -> FailureClass | None:
    return FailureClass(text) if text else None


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()


def _timedelta(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


# Specs


def _spec_to_json(spec: EvaluationSpec) -> dict[str, Any]:
    model = {"kind": _KINDS[type(spec.model)], "text": str(spec.model)} if spec.model else None
    return asdict(spec) | {"model": model}


def _spec_from_json(spec: Mapping[str, Any]) -> EvaluationSpec:
    model = _model(**spec["model"]) if spec["model"] else None
    return EvaluationSpec(
        **{
            **spec,
            "model": model,
            "suite": tuple(_entry(entry) for entry in spec["suite"]),
            "k": tuple(spec["k"]),
            "prompting": _prompting(spec.get("prompting") or {}),
            "examples": ProblemSetRef(**spec["examples"]) if spec.get("examples") else None,
            "judge": RewardJudge(**spec["judge"]) if spec.get("judge") else None,
            "environment": _ENVIRONMENT.validate_python(spec["environment"]) if spec.get("environment") else None,
        }
    )


def _entry(entry: Mapping[str, Any]) -> SuiteEntry:
    return SuiteEntry(ProblemSetRef(**entry["problems"]), entry["weight"], entry["version"])


def _prompting(prompting: Mapping[str, Any]) -> Prompting:
    form = prompting.get("form")
    return Prompting(Form(form) if form else None, prompting.get("shots"))


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


# Scores


def _score(record: Mapping[str, Any]) -> Score:
    means = record.get("episodes")
    benchmarks = tuple(_benchmark(one) for one in record["benchmarks"])
    return Score(_passes(record["pass_at_k"]), benchmarks, EpisodeMeans(**means) if means else None)


def _benchmark(record: Mapping[str, Any]) -> BenchmarkScore:
    parts = {
        "pass_at_k": _passes(record["pass_at_k"]),
        "slices": tuple(Slice(one["name"], one["problems"], _passes(one["pass_at_k"])) for one in record["slices"]),
        "exclusions": tuple(Exclusion(**one) for one in record["exclusions"]),
        "shared": tuple(record.get("shared", ())),
    }
    return BenchmarkScore(**{**record, **parts})


def _passes(records: Sequence[Mapping[str, Any]]) -> tuple[PassAtK, ...]:
    return tuple(PassAtK(one["k"], Estimate(**one["estimate"])) for one in records)
