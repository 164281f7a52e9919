"""Compares two finished evaluations, problem by problem: in each set and in the whole score. And plans comparisons."""

import hashlib
import json
import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.sample import ProblemKey
from eval_service.domain.score import Facts, weighted
from eval_service.domain.spec import EvaluationSpec
from eval_service.domain.statistics import (
    CONFIDENCE,
    POWER,
    Tally,
    detectable_difference,
    estimate_difference,
    estimate_pass_at_k,
    family_differences,
    holm,
    plan_difference,
    sign_flip_p_value,
)
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.statistics import Comparison

MAX_PROBLEMS = 1_000_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a comparison is to say. Raises InvalidArgument for a confidence that is none."""

    confidence: float = CONFIDENCE
    training: Collection[str] = ()
    """Fingerprints of what the candidate was trained on."""
    selection: Collection[str] = ()
    """Fingerprints of what it was chosen by."""

    def __post_init__(self) -> None:
        faults = Faults()
        faults.bounds("confidence", self.confidence, above=0, below=1)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Changed:
    """A problem that one of the two solves more often."""

    problem_id: str
    baseline: float
    """Share of its samples that passed."""
    candidate: float


@dataclass(frozen=True, slots=True)
class SetComparison:
    name: str
    comparison: Comparison
    adjusted_p_value: float
    """Corrected for as many sets as are compared."""
    unsolved: tuple[str, ...]
    """Problems that all of the baseline's samples solve and none of the candidate's."""
    tampered_share: float
    """Of the candidate's samples."""
    trained_on: int
    """Problems that the candidate was trained on."""
    selected_on: int
    """Problems by which it was chosen."""
    changed: tuple[Changed, ...]
    """The most lost first."""


@dataclass(frozen=True, slots=True)
class Comparisons:
    whole: Comparison
    """Of the sets' weighted means."""
    sets: tuple[SetComparison, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A comparison that is not made yet. Raises InvalidArgument that names every fault."""

    samples_per_problem: int | None = None
    """None: as many as the baseline has; so also `problems`."""
    problems: int | None = None
    power: float = POWER
    """The probability of seeing a difference that is there."""

    def __post_init__(self) -> None:
        faults = Faults()
        if self.samples_per_problem is not None:
            faults.bounds("samples_per_problem", self.samples_per_problem, at_least=1, at_most=MAX_PROBLEMS)
        if self.problems is not None:
            faults.bounds("problems", self.problems, at_least=2, at_most=MAX_PROBLEMS)
        faults.bounds("power", self.power, at_least=0.5, below=1)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Planned:
    detectable_difference: float
    problems: int
    samples_per_problem: int


def check_finished(evaluation: Evaluation) -> None:
    """Raises FailedPrecondition unless it has succeeded."""
    if evaluation.state is not State.SUCCEEDED:
        raise FailedPrecondition(
            f"evaluation {evaluation.id} is {evaluation.state}; only succeeded evaluations can be compared"
        )


def check_comparable(baseline: Evaluation, candidate: Evaluation) -> None:
    """Raises FailedPrecondition unless both succeeded, on the same problems, and sampled in the same way."""
    check_finished(baseline)
    check_finished(candidate)
    theirs, ours = setup_of(baseline.spec), setup_of(candidate.spec)
    for what in {**theirs, **ours}:
        before, now = theirs.get(what, "none"), ours.get(what, "none")
        if before != now:
            raise FailedPrecondition(
                f"evaluations {baseline.id} and {candidate.id} differ in their {what}: {before} against {now}"
            )


def setup_of(spec: EvaluationSpec) -> Mapping[str, object]:
    """What two evaluations must have in common for a comparison, by name."""
    setup: dict[str, object] = {
        "problems": spec.digests,
        "weights": _weights(spec),
        "prompting": spec.prompting,
        "environment": spec.environment and replace(spec.environment, command=(), files={}),
        "temperature": spec.temperature,
        "max_tokens": spec.max_tokens,
    }
    if spec.environment and spec.environment.command:
        files = hashlib.sha256(json.dumps(sorted(spec.environment.files.items())).encode()).hexdigest()
        setup["harness"] = f"{shlex.join(spec.environment.command)[:200]}, with files of sha256:{files}"
    if spec.system:  # without: what is on record stays the same setup
        setup["system"] = spec.system
    if spec.chat_template:
        setup["chat template"] = f"sha256:{hashlib.sha256(spec.chat_template.encode()).hexdigest()}"
    if spec.examples:
        setup["examples"] = f"{spec.examples.limit} of {spec.examples.digest}"
    if spec.judge:
        setup["judge"] = f"{spec.judge.reward}, from {spec.judge.passing_score:g} on"
    return setup


def compare(
    spec: EvaluationSpec,
    facts: Sequence[Facts],
    baseline: Mapping[ProblemKey, Tally],
    candidate: Mapping[ProblemKey, Tally],
    question: Question = Question(),
) -> Comparisons:
    """The comparison of two evaluations that `check_comparable` let pass, from their tallies by problem. `spec` and
    `facts` are the baseline's. Problems that one of them left out count in neither.

    Raises FailedPrecondition where they have no problem of a set in common.
    """
    pairs = [_Pairs(name, facts, baseline, candidate, question) for name in spec.names]
    comparisons = [one.comparison(question.confidence) for one in pairs]
    adjusted = holm([one.p_value for one in comparisons])
    sets = tuple(
        SetComparison(
            *(one.name, comparison, p_value, one.unsolved, one.tampered_share, one.trained_on, one.selected_on),
            one.changed,
        )
        for one, comparison, p_value in zip(pairs, comparisons, adjusted, strict=True)
    )
    weights = _weights(spec)
    flipped = [weight * one.differences / one.problems for weight, one in zip(weights, pairs, strict=True)]
    return Comparisons(_whole(weights, comparisons, sign_flip_p_value(np.concatenate(flipped))), sets)


def plan(spec: EvaluationSpec, baseline: Mapping[ProblemKey, Tally], wanted: Plan) -> Planned:
    """The smallest difference in the whole score that a comparison with this evaluation would show."""
    sets = [[tally for key, tally in baseline.items() if key.benchmark == name] for name in spec.names]
    samples = wanted.samples_per_problem or min(tally.samples for one in sets for tally in one)
    share = (wanted.problems or len(baseline)) / len(baseline)
    counts = [max(2, round(share * len(one))) for one in sets]
    detectable = [
        plan_difference(one, count, samples, power=wanted.power) for one, count in zip(sets, counts, strict=True)
    ]
    return Planned(_together(_weights(spec), detectable), sum(counts), samples)


class _Pairs:
    """The problems of one set that both measured."""

    def __init__(
        self,
        name: str,
        facts: Sequence[Facts],
        baseline: Mapping[ProblemKey, Tally],
        candidate: Mapping[ProblemKey, Tally],
        question: Question,
    ) -> None:
        keys = sorted(key for key in baseline.keys() & candidate.keys() if key.benchmark == name)
        if not keys:
            raise FailedPrecondition(f"the two evaluations have no problem of {name} in common")
        self.name = name
        self.problems = len(keys)
        self._before, self._after = [baseline[key] for key in keys], [candidate[key] for key in keys]
        self.differences = family_differences(self._after, self._before)
        self.unsolved = tuple(
            key.problem_id
            for key, old, new in zip(keys, self._before, self._after, strict=True)
            if old.passed == old.samples and new.passed == 0
        )
        shares = [
            Changed(key.problem_id, old.passed / old.samples, new.passed / new.samples)
            for key, old, new in zip(keys, self._before, self._after, strict=True)
            if _more(old, new) or _more(new, old)
        ]
        self.changed = tuple(sorted(shares, key=lambda one: one.candidate - one.baseline))
        samples = sum(tally.samples for tally in self._after)
        self.tampered_share = sum(tally.tampered for tally in self._after) / samples
        prints = {one.key: one.fingerprint for one in facts}
        self.trained_on, self.selected_on = (
            sum(prints.get(key, "") in known for key in keys)
            for known in (frozenset(question.training), frozenset(question.selection))
        )

    def comparison(self, confidence: float) -> Comparison:
        return Comparison(
            baseline=estimate_pass_at_k(self._before, 1, confidence),
            candidate=estimate_pass_at_k(self._after, 1, confidence),
            difference=estimate_difference(self._after, self._before, confidence),
            p_value=sign_flip_p_value(self.differences),
            problems=self.problems,
            won=sum(map(_more, self._after, self._before)),
            lost=sum(map(_more, self._before, self._after)),
            clusters=len(self.differences),
            detectable_difference=detectable_difference(self._after, self._before, confidence),
            confidence=confidence,
        )


def _whole(weights: Sequence[float], parts: Sequence[Comparison], p_value: float) -> Comparison:
    return Comparison(
        baseline=weighted(list(zip(weights, [part.baseline for part in parts], strict=True))),
        candidate=weighted(list(zip(weights, [part.candidate for part in parts], strict=True))),
        difference=weighted(list(zip(weights, [part.difference for part in parts], strict=True)), least=-1.0),
        p_value=p_value,
        problems=sum(part.problems for part in parts),
        won=sum(part.won for part in parts),
        lost=sum(part.lost for part in parts),
        clusters=sum(part.clusters for part in parts),
        detectable_difference=_together(weights, [part.detectable_difference for part in parts]),
        confidence=parts[0].confidence,
    )


def _together(weights: Sequence[float], errors: Sequence[float]) -> float:
    """The error of a weighted mean of independent parts, from theirs."""
    return math.hypot(*(weight * error for weight, error in zip(weights, errors, strict=True))) / sum(weights)


def _weights(spec: EvaluationSpec) -> tuple[float, ...]:
    return tuple(entry.weight for entry in spec.suite)


def _more(one: Tally, other: Tally) -> bool:
    """Whether a larger share of its samples passed."""
    return one.passed * other.samples > other.passed * one.samples
