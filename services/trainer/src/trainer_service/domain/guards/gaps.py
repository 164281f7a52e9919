"""A reward that rises where it is learned from, and not where it is only measured."""

import math
from statistics import NormalDist

from ratchet_kit.statistics import newcombe, wilson
from trainer_service.domain.guards.series import Series, latest, values
from trainer_service.domain.spec.thresholds import IN_A_ROW, LATEST, Thresholds

SCORE = "score_mean"
MOST = 0.5
"""Share of rewarded programs that fail the other tests, which no honest set has."""
Z = NormalDist().inv_cdf(0.995)
"""Of intervals of 99 %: a run is looked at once for each validation."""


def reward_in_training_alone(series: Series, thresholds: Thresholds) -> str:
    """At a step that was validated, of a run whose base was: how much more the mean score of the last five steps is
    above that of the first three than the validation score is above the base's.

    Scores outside of 0 to 1 have no interval here; where weights change over the steps, scores are not comparable.
    """
    scores, bases = latest(series, "validation_score", 1), values(series, "base_score")
    problems = values(series, "validation_problems")
    first, last = series[:IN_A_ROW], series[-LATEST:]
    if not (thresholds.reward_gap and scores and bases and problems) or len(series) < IN_A_ROW + LATEST:
        return ""
    if any(name.startswith("weight_") for name in series[-1]):
        return ""
    then, now = _mean(first), _mean(last)
    if then is None or now is None or not all(0 <= mean <= 1 for mean in (scores[0], bases[-1], then[0], now[0])):
        return ""
    learned = newcombe(*now, *then, Z)
    measured = newcombe(scores[0], problems[-1], bases[-1], problems[-1], Z)
    gap = learned.value - measured.value
    least = gap - math.hypot(learned.value - learned.low, measured.high - measured.value)
    if least <= thresholds.reward_gap:
        return ""
    return (
        f"the reward rises where it is learned from, and not where it is measured: {learned.value:+.2f} in training"
        f" since the start, {measured.value:+.2f} in validation, {least:.2f} apart or more; tests may let wrong"
        " programs pass, or answers are learned by heart"
    )


def passing_what_is_rewarded(series: Series, thresholds: Thresholds) -> str:
    """In runs with `unrewarded_tests`: the share of passing programs that fail these, in the last five steps that had
    one. Speaks where it has risen since the first three, and where it is more than a half from the start: tests that
    are found out at once have no better time to be compared with. Completions of one prompt are alike, so that prompts
    are counted."""
    if not thresholds.second_hand_gap or not series or "second_hand_failed" not in series[-1]:
        return ""
    judged = [metrics for metrics in series if "second_hand_failed" in metrics]
    if len(judged) < IN_A_ROW + LATEST:
        return ""
    then, now = (_failed(steps) for steps in (judged[:IN_A_ROW], judged[-LATEST:]))
    is_most = wilson(*now, Z).low > MOST
    if not is_most and newcombe(*now, *then, Z).low <= thresholds.second_hand_gap:
        return ""
    return (
        f"programs learn to pass the tests that are rewarded, and not the problem: {now[0]:.0%} of those that pass fail"
        f" the tests of unrewarded_tests, where {then[0]:.0%} did at the start; look at them: ratchet data audit"
    )


def _failed(series: Series) -> tuple[float, float]:
    """The share, and from how many prompts."""
    counts = values(series, "second_hand_groups")
    shares = values(series, "second_hand_failed")
    return sum(share * count for share, count in zip(shares, counts, strict=True)) / sum(counts), sum(counts)


def _mean(series: Series) -> tuple[float, float] | None:
    """Of the scores, and from how many prompts: completions of one are alike. None where a step does not say."""
    scores, groups = values(series, SCORE), values(series, "groups")
    if len(scores) < len(series) or len(groups) < len(series) or not sum(groups):
        return None
    return sum(score * count for score, count in zip(scores, groups, strict=True)) / sum(groups), sum(groups)
