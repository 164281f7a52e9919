"""The content of a report on evaluations, gathered through the public API and nothing else."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ratchet.common.v1 import statistics_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import ApiError, Client
from ratchet_client.names import environment_name, examples_name, model_name, state_name
from ratchet_kit.statistics import Estimate, estimate_from_proto
from ratchet_kit.text import clip
from ratchet_reports import usage_words
from ratchet_reports.document import (
    PASSED,
    EvaluationResult,
    Paired,
    PairedSet,
    Report,
    SetResult,
    Slice,
    Solved,
    Spread,
)

IMPORTED = "imported samples"
WHOLE = "whole score"
_OF_SETUP = ("temperature", "max tokens", "environment", "system", "examples", "judge", "chat template")
"""Settings that two evaluations must share to be compared."""
STILL = {"QUEUED": "has not begun", "RUNNING": "is still running", "FAILED": "failed", "CANCELLED": "was cancelled"}
BY_VERDICT = {
    verdict_pb2.VERDICT_UNSPECIFIED: "PLATFORM",
    verdict_pb2.VERDICT_FAILED: "WRONG",
    verdict_pb2.VERDICT_TIME_LIMIT: "TIMEOUT",
    verdict_pb2.VERDICT_MEMORY_LIMIT: "MEMORY",
    verdict_pb2.VERDICT_TAMPERED: "TAMPERED",
}
"""The failure class of a verdict, where the sample has no class itself; any other is a CRASH."""


def gather(
    client: Client, named: Mapping[str, str], baseline: str, title: str, progress: Callable[[int, int], None]
) -> Report:
    """`named`: id -> what the page calls it; empty: its model. `baseline`: what all others are compared with; empty:
    each is compared with the first that measured the same at the same settings. `progress` is called with the samples
    read and all of them.

    Raises ApiError for an evaluation that is not there. Two that cannot be compared are no error: the report says it.
    """
    found = [client.evaluations.get(id) for id in named]
    total = sum(it.samples_done or sum(it.verdicts.values()) for it in found)
    read = 0

    def counted(samples: Iterable[pb.Sample]) -> Iterable[pb.Sample]:
        nonlocal read
        for sample in samples:
            read += 1
            progress(read, max(read, total))
            yield sample

    results = [
        _result(it, label, _tallies(it, counted(client.evaluations.samples(it.id))))
        for it, label in zip(found, labels(found, named), strict=True)
    ]
    pairs = [(_baseline(results[:place], it, baseline, results), it) for place, it in enumerate(results)]
    comparisons = [_paired(client, start, it) for start, it in pairs if start and it.id != start.id]
    return Report(title, datetime.now(UTC).isoformat(timespec="seconds"), results, comparisons)


def _baseline(
    before: Sequence[EvaluationResult], one: EvaluationResult, named: str, results: Sequence[EvaluationResult]
) -> EvaluationResult | None:
    if named:
        return next(it for it in results if it.id == named)
    return next((it for it in before if _measured(it) == _measured(one)), None)


def _measured(it: EvaluationResult) -> tuple[object, ...]:
    return (
        tuple((one.name, one.digest) for one in it.sets),
        *(it.settings.get(name) for name in _OF_SETUP),
    )


def labels(found: Sequence[pb.Evaluation], named: Mapping[str, str]) -> list[str]:
    """A name for each: its own or its model's, and as much of its settings, then its id, as sets it apart."""
    names = [named.get(it.id) or model_name(it.spec.model).rstrip("/").rpartition("/")[2] or IMPORTED for it in found]
    for more in (
        lambda it: {pb.Prompting.FORM_CHAT: "chat", pb.Prompting.FORM_COMPLETION: "completion"}.get(
            it.spec.prompting.form, ""
        ),
        lambda it: f"T {it.spec.temperature:g}",
        lambda it: f"system {clip(it.spec.system, 20)}" if it.spec.system else "",
        lambda it: set_names(it),
        lambda it: it.id,
    ):
        count = Counter(names)
        extended = [f"{name}, {more(it)}" if more(it) else name for name, it in zip(names, found, strict=True)]
        apart = {name for name in count if len({e for e, n in zip(extended, names, strict=True) if n == name}) > 1}
        names = [e if name in apart else name for e, name in zip(extended, names, strict=True)]
    return names


def set_names(evaluation: pb.Evaluation) -> str:
    """The scores of all sets that it measures."""
    spec = evaluation.spec
    return ", ".join(entry.problems.name for entry in spec.suite) or spec.problems.name


@dataclass(slots=True)  # mutable: it counts
class _Tally:
    """The samples of one set."""

    outcomes: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    forgeable_passes: int = 0
    truncated: int = 0

    def add(self, sample: pb.Sample) -> None:
        passed = sample.verdict == verdict_pb2.VERDICT_PASSED
        self.outcomes[PASSED if passed else _failure(sample)] += 1
        self.forgeable_passes += passed and sample.forgeable
        self.truncated += sample.truncated
        solved = self.problems.setdefault(sample.problem_id, [0, 0])
        solved[0] += passed
        solved[1] += 1
        for name, value in (
            ("characters", len(sample.completion)),
            ("tokens", sample.tokens),
            ("generation seconds", sample.generation_time.ToTimedelta().total_seconds()),
            ("CPU seconds", sample.cpu_time.ToTimedelta().total_seconds()),
        ):
            self.values.setdefault(name, []).append(value)


def _failure(sample: pb.Sample) -> str:
    if sample.failure:
        return pb.FailureClass.Name(sample.failure).removeprefix("FAILURE_CLASS_")
    return BY_VERDICT.get(sample.verdict, "CRASH")


def _tallies(evaluation: pb.Evaluation, samples: Iterable[pb.Sample]) -> Mapping[str, _Tally]:
    """By the name of the set; a sample that names none is of the only one."""
    tallies: dict[str, _Tally] = {}
    for sample in samples:
        tallies.setdefault(sample.benchmark or evaluation.spec.problems.name, _Tally()).add(sample)
    return tallies


def _result(evaluation: pb.Evaluation, label: str, tallies: Mapping[str, _Tally]) -> EvaluationResult:
    start, end = evaluation.start_time, evaluation.end_time
    return EvaluationResult(
        id=evaluation.id,
        label=label,
        model=model_name(evaluation.spec.model) or IMPORTED,
        policy_id=evaluation.policy_id,
        state=state_name(evaluation),
        note=_note(evaluation),
        create_time=evaluation.create_time.ToDatetime(tzinfo=UTC).isoformat(timespec="seconds"),
        seconds=end.ToMilliseconds() / 1e3 - start.ToMilliseconds() / 1e3 if start.seconds and end.seconds else 0.0,
        cost=usage_words.cost(evaluation.usage, answers=evaluation.samples_done),
        settings=_settings(evaluation.spec),
        pass_at_k=_pass_at_k(evaluation.pass_at_k),
        sets=[_set_result(score, tallies.get(score.problems.name, _Tally())) for score in _scores(evaluation)],
    )


def _scores(evaluation: pb.Evaluation) -> Sequence[pb.BenchmarkScore]:
    """One for each set, also of an evaluation that has none yet."""
    if evaluation.benchmarks:
        return evaluation.benchmarks
    if not evaluation.spec.suite:
        return [
            pb.BenchmarkScore(
                problems=evaluation.spec.problems,
                pass_at_k=evaluation.pass_at_k,
                problems_done=evaluation.problems_done,
                problems_total=evaluation.problems_total,
            )
        ]
    return [pb.BenchmarkScore(problems=entry.problems, weight=entry.weight) for entry in evaluation.spec.suite]


def _note(evaluation: pb.Evaluation) -> str:
    state = state_name(evaluation)
    if state not in STILL:
        return ""
    reason = f": {evaluation.failure.message}" if evaluation.failure.message else ""
    if not evaluation.problems_done:
        return f"{STILL[state]}{reason}; no problem of it is done."
    done = f"{evaluation.problems_done} of {evaluation.problems_total or '?'} problems are done"
    return f"{STILL[state]}{reason}; {done}, and its numbers are of what was judged so far."


def _settings(spec: pb.EvaluationSpec) -> dict[str, str]:
    form = pb.Prompting.Form.Name(spec.prompting.form).removeprefix("FORM_").lower() if spec.prompting.form else ""
    shown: dict[str, Any] = {"samples per problem": spec.samples_per_problem}
    if spec.imported_samples:
        return {name: str(value) for name, value in shown.items()} | {"imported": str(spec.imported_samples)}
    shown |= {"temperature": f"{spec.temperature:g}", "max tokens": spec.max_tokens, "seed": spec.seed, "form": form}
    shown["environment"] = environment_name(spec.environment) if spec.HasField("environment") else ""
    shown |= {"system": spec.system, "examples": examples_name(spec.examples), "judge": spec.judge.reward}
    if spec.chat_template:
        shown["chat template"] = f"its own, sha256:{hashlib.sha256(spec.chat_template.encode()).hexdigest()[:12]}"
    shown["shots"] = spec.prompting.shots if spec.prompting.HasField("shots") else ""
    return {name: str(value) for name, value in shown.items() if value != ""}


def _pass_at_k(rows: Iterable[pb.PassAtK]) -> dict[int, Estimate]:
    return {row.k: estimate_from_proto(row.estimate) for row in rows}


def _set_result(score: pb.BenchmarkScore, tally: _Tally) -> SetResult:
    spreads = {name: Spread.of(values) for name, values in tally.values.items()}
    return SetResult(
        name=score.problems.name,
        version=score.version,
        digest=score.problems.digest,
        weight=score.weight,
        problems_done=score.problems_done,
        problems_total=score.problems_total,
        pass_at_k=_pass_at_k(score.pass_at_k),
        samples=sum(tally.outcomes.values()),
        outcomes=dict(tally.outcomes),
        forgeable_passes=tally.forgeable_passes,
        truncated=tally.truncated,
        slices=[Slice(one.name, one.problems, _pass_at_k(one.pass_at_k)) for one in score.slices],
        exclusions={one.problem_id: one.reason for one in score.exclusions},
        spreads={name: spread for name, spread in spreads.items() if spread},
        problems={id: Solved(passes, samples) for id, (passes, samples) in tally.problems.items()},
    )


def _paired(client: Client, baseline: EvaluationResult, candidate: EvaluationResult) -> Paired:
    try:
        reply = client.evaluations.compare_sets(baseline.id, candidate.id)
    except ApiError as error:
        return Paired(baseline.id, candidate.id, refused=str(error), sets=())
    only = baseline.sets[0].name if len(baseline.sets) == 1 else WHOLE
    whole = pb.BenchmarkComparison(name=only, comparison=reply.comparison, adjusted_p_value=reply.comparison.p_value)
    found = [whole, *reply.benchmarks] if len(reply.benchmarks) > 1 else reply.benchmarks or [whole]
    return Paired(baseline.id, candidate.id, refused="", sets=[_paired_set(one, baseline, candidate) for one in found])


def _paired_set(one: pb.BenchmarkComparison, baseline: EvaluationResult, candidate: EvaluationResult) -> PairedSet:
    found: statistics_pb2.Comparison = one.comparison
    changes = _changes(baseline.on(one.name), candidate.on(one.name))
    return PairedSet(
        name=one.name,
        problems=found.problems,
        clusters=found.clusters or found.problems,
        baseline=estimate_from_proto(found.baseline),
        candidate=estimate_from_proto(found.candidate),
        difference=estimate_from_proto(found.difference),
        p_value=found.p_value,
        adjusted_p_value=one.adjusted_p_value,
        detectable_difference=found.detectable_difference,
        confidence=found.confidence or 0.95,
        gained=[id for id, change in changes if change > 0],
        lost=[id for id, change in reversed(changes) if change < 0],
    )


def _changes(old: SetResult | None, new: SetResult | None) -> list[tuple[str, float]]:
    """Problem -> candidate minus baseline in the share of samples that pass; the largest first."""
    if old is None or new is None:
        return []
    both = [(id, new.problems[id].share - old.problems[id].share) for id in old.problems if id in new.problems]
    return sorted(both, key=lambda change: -change[1])
