"""A policy that has become worse than the base it started from, by an interval that leaves no doubt."""

from statistics import NormalDist, fmean

from ratchet_kit.statistics import newcombe
from trainer_service.domain.guards.series import Series, latest, values
from trainer_service.domain.spec.thresholds import IN_A_ROW, LATEST, Thresholds


def below_the_base_in_validation(series: Series, thresholds: Thresholds) -> str:
    """At a step that was validated, of a run whose base was: `base_score`, `validation_score`, and how many
    `validation_problems` both are means over. Scores outside of 0 to 1 have no interval here, and are passed over."""
    scores, bases, problems = (
        latest(series, "validation_score", 1),
        values(series, "base_score"),
        values(series, "validation_problems"),
    )
    if not (scores and bases and problems):
        return ""
    score, base, count = scores[0], bases[-1], problems[-1]
    if not _is_below(score, count, base, count, thresholds.collapse_confidence):
        return ""
    return (
        f"the policy is worse than its base: it scores {score:.3f} on {count:.0f} validation problems, where the base"
        f" scored {base:.3f}; a smaller learning_rate, or a kl_coefficient, keeps it closer"
    )


def below_the_base_in_training(series: Series, thresholds: Thresholds) -> str:
    """The share of sampled programs that pass, in the last five steps against the first three, whose samples are nearly
    the base's. Completions of one prompt are alike, so that prompts are counted: `groups`. A curriculum draws other
    problems later, and often harder ones: nothing is said of it."""
    if len(series) < IN_A_ROW + LATEST or "stage" in series[-1]:
        return ""
    first, last = _passed(series[:IN_A_ROW]), _passed(series[-LATEST:])
    if first is None or last is None or not _is_below(*last, *first, thresholds.collapse_confidence):
        return ""
    return (
        f"the policy is worse than at its start: {last[0]:.0%} of its programs pass in the last {LATEST} steps, where"
        f" {first[0]:.0%} did in the first {IN_A_ROW}; take a smaller learning_rate, or a kl_coefficient"
    )


def rising_loss(series: Series, thresholds: Thresholds) -> str:
    """Of examples. The loss of a policy gradient is about 0 whatever happens, and means nothing here."""
    if len(series) < 2 * IN_A_ROW or "reward_mean" in series[-1] or not thresholds.loss_rise:
        return ""
    first, last = values(series[:IN_A_ROW], "loss"), latest(series, "loss", IN_A_ROW)
    if len(first) < IN_A_ROW or not last or min(last) <= thresholds.loss_rise * fmean(first):
        return ""
    return (
        f"the loss is {fmean(last):.3g} in the last {IN_A_ROW} steps, where it was {fmean(first):.3g} at the start:"
        " take a smaller learning_rate, or more warmup_steps"
    )


def _passed(series: Series) -> tuple[float, float] | None:
    """The share of programs that pass, and from how many prompts they are. None where a step does not say."""
    shares, groups = values(series, "verdict_passed"), values(series, "groups")
    if len(shares) < len(series) or len(groups) < len(series) or not sum(groups):
        return None
    return sum(share * count for share, count in zip(shares, groups, strict=True)) / sum(groups), sum(groups)


def _is_below(low: float, of_low: float, high: float, of_high: float, confidence: float) -> bool:
    """Whether the interval of low - high lies below 0; both are means of so many values from 0 to 1.

    Newcombe's interval takes the two for independent: of the same problems they are not, which makes it wider than it
    need be.
    """
    if not confidence or not (0 <= low < high <= 1):
        return False
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return newcombe(low, of_low, high, of_high, z).high < 0
