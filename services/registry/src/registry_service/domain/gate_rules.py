"""The rules of a gate: what a candidate has to gain, and what it must not lose."""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.statistics import Comparison
from registry_service.domain.evidence import Comparisons, Evaluation, MeasuredSet

MAX_GUARDS = 50


@dataclass(frozen=True, slots=True)
class Guard:
    """A set on which little may be lost."""

    problems: str
    """Its name."""
    max_loss: float
    """The lower end of the difference's interval must lie above minus this."""


@dataclass(frozen=True, slots=True)
class GuardResult:
    problems: str
    comparison: Comparison
    passed: bool


@dataclass(frozen=True, slots=True)
class GateRules:
    """Beside the gain. What is absent does not decide."""

    target: str = ""
    """The set on which the gain must show; empty: the whole score."""
    guards: tuple[Guard, ...] = ()
    max_unsolved: int | None = None
    """Problems that all of the champion's samples solve and none of the candidate's."""
    max_tampered_share: float | None = None
    """Of the candidate's samples, on each set."""

    def check(self, faults: Faults) -> None:
        """Adds what is wrong, by its path below `rules`."""
        rules = faults.under("rules")
        if not rules.length("guards", self.guards, MAX_GUARDS):
            return
        for index, guard in enumerate(self.guards):
            at = rules.under(f"guards[{index}]")
            at.required("problems", guard.problems)
            at.bounds("max_loss", guard.max_loss, at_least=0, below=1)
            earlier = {other.problems for other in self.guards[:index]}
            at.unless(guard.problems not in earlier, "problems", "must not be guarded twice")
        if self.max_unsolved is not None:
            rules.bounds("max_unsolved", self.max_unsolved, at_least=0)
        if self.max_tampered_share is not None:
            rules.bounds("max_tampered_share", self.max_tampered_share, at_least=0, at_most=1)

    def gained_on(self, evaluation: Evaluation) -> Sequence[MeasuredSet]:
        """The sets on which the gain must show. Raises FailedPrecondition for one that was not measured."""
        return [_of(evaluation, self.target)] if self.target else evaluation.sets

    def judged(self, evaluation: Evaluation) -> Sequence[MeasuredSet]:
        """All sets that the decision looks at. Raises FailedPrecondition for one that was not measured."""
        guarded = [_of(evaluation, guard.problems) for guard in self.guards]
        return list(dict.fromkeys([*self.gained_on(evaluation), *guarded]))


@dataclass(frozen=True, slots=True)
class Judgement:
    passed: bool
    reason: str
    """In plain words."""
    guards: tuple[GuardResult, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be judged, beside the rules."""

    candidate: str
    """"starter@2", as `champion`."""
    champion: str
    min_difference: float
    tries: int
    """How many comparisons could have been made instead, this one included."""


def judge(question: Question, rules: GateRules, comparisons: Comparisons) -> Judgement:
    target, least = comparisons.of(rules.target), question.min_difference
    gained = target.difference.low > least
    guards = tuple(_guarded(guard, comparisons) for guard in rules.guards)
    where = (
        f"pass@1 on {rules.target}" if rules.target else "pass@1" if len(comparisons.sets) < 2 else "the whole score"
    )
    gain = (
        f"{question.candidate} has {target.candidate.value:.3f} and {question.champion} {target.baseline.value:.3f} in "
        f"{where} over {target.problems} problems: a difference of {_shown(target)}, p = {target.p_value:.2g}, "
        f"where {'it was asked to be' if gained else 'all of the interval must be'} above {least:+.3f}"
    )
    losses = [
        _loss(guard, result.comparison) for guard, result in zip(rules.guards, guards, strict=True) if not result.passed
    ]
    faults = ([] if gained else [gain]) + losses + _failures(rules, comparisons)
    kept = [f"on {guard.problems} it is {_shown(guard.comparison)}" for guard in guards]
    said = f"Refused: {'; '.join(faults)}." if faults else f"Passed: {'; '.join([gain, *kept])}."
    return Judgement(not faults, said + _tries(question, target) + _next(question, target, gained, not faults), guards)


def _tries(question: Question, target: Comparison) -> str:
    if question.tries < 2:
        return ""
    return (
        f" {question.tries - 1} other comparisons with {question.champion} could have been gated on these problems: "
        f"one of that many may look better by luck, so this one is decided at {100 * target.confidence:.4g} %."
    )


def _next(question: Question, target: Comparison, gained: bool, passed: bool) -> str:
    if passed:
        return f" {question.candidate} may be released or promoted with this gate."
    if gained or not target.detectable_difference:
        return f" {question.champion} stays."
    return (
        f" {question.champion} stays. Such a comparison shows a true difference of {target.detectable_difference:.3f} "
        "four times in five; more problems or samples show a smaller one."
    )


def _guarded(guard: Guard, comparisons: Comparisons) -> GuardResult:
    comparison = comparisons.of(guard.problems)
    return GuardResult(guard.problems, comparison, comparison.difference.low > -guard.max_loss)


def _loss(guard: Guard, comparison: Comparison) -> str:
    loses = "is" if comparison.difference.high < -guard.max_loss else "may be"
    return f"on {guard.problems} it is {_shown(comparison)}, so more than the {guard.max_loss:.3f} allowed {loses} lost"


def _failures(rules: GateRules, comparisons: Comparisons) -> list[str]:
    faults = []
    unsolved = [problem for one in comparisons.sets for problem in one.unsolved]
    if rules.max_unsolved is not None and len(unsolved) > rules.max_unsolved:
        shown = ", ".join(unsolved[:3]) + (", ..." if len(unsolved) > 3 else "")
        faults.append(
            f"problems that the champion always solves and the candidate never does: {len(unsolved)} ({shown}), "
            f"where {rules.max_unsolved} may be"
        )
    if rules.max_tampered_share is not None:
        faults += [
            f"{one.tampered_share:.1%} of its samples on {one.name} tampered with their tests, "
            f"where {rules.max_tampered_share:.1%} may"
            for one in comparisons.sets
            if one.tampered_share > rules.max_tampered_share
        ]
    return faults


def _of(evaluation: Evaluation, name: str) -> MeasuredSet:
    for one in evaluation.sets:
        if one.name == name:
            return one
    measured = ", ".join(one.name for one in evaluation.sets)
    raise FailedPrecondition(f"evaluation {evaluation.id} did not measure {name}, but {measured}")


def _shown(comparison: Comparison) -> str:
    return f"{comparison.difference.value:+.3f} ({_interval(comparison)})"


def _interval(comparison: Comparison) -> str:
    difference = comparison.difference
    return f"{100 * comparison.confidence:.4g} % interval {difference.low:+.3f} to {difference.high:+.3f}"
