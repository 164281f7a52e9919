"""What a policy's completions become, against what they were in the first steps: longer, alike, cut off, forged."""

from statistics import fmean

from trainer_service.domain.guards.series import Series, latest, mean_at_first, values
from trainer_service.domain.spec.thresholds import FIRST, IN_A_ROW, LATEST, Thresholds

VERDICT = "verdict_"
PASSED = f"{VERDICT}passed"
TAMPERED = f"{VERDICT}tampered"


def drifting_length(series: Series, thresholds: Thresholds) -> str:
    name, factor = "response_tokens_mean", thresholds.length_drift
    before, now = mean_at_first(series, name, FIRST, IN_A_ROW), latest(series, name, IN_A_ROW)
    if not (factor and before and now) or before / factor <= fmean(now) <= before * factor:
        return ""
    return f"completions have {fmean(now):.0f} tokens on average, where they had {before:.0f} at the start"


def truncated(series: Series, thresholds: Thresholds) -> str:
    shares = latest(series, "response_clip_ratio", IN_A_ROW)
    if not (thresholds.truncated_share and shares) or min(shares) <= thresholds.truncated_share:
        return ""
    return f"{fmean(shares):.0%} of the completions end at max_response_tokens, and are judged as they stand there"


def repeating(series: Series, thresholds: Thresholds) -> str:
    name = "repetition_mean"
    before, now = mean_at_first(series, name, FIRST, IN_A_ROW), latest(series, name, IN_A_ROW)
    if not (thresholds.repetition_rise and now) or before is None or min(now) - before <= thresholds.repetition_rise:
        return ""
    return (
        f"completions repeat themselves: {fmean(now):.0%} of their runs of four tokens were there before, where it was"
        f" {before:.0%} at the start"
    )


def tampering(series: Series, thresholds: Thresholds) -> str:
    share = _tampered(series)
    if not thresholds.tampered_share or share <= thresholds.tampered_share:
        return ""
    return f"{share:.1%} of the programs of the last {LATEST} steps tried to forge their verdict"


def mostly_tampering(series: Series, thresholds: Thresholds) -> str:
    share = _tampered(series)
    if not thresholds.tampered_limit or share <= thresholds.tampered_limit:
        return ""
    return (
        f"the policy learns to forge its verdicts: {share:.0%} of the programs of the last {LATEST} steps tried to;"
        " look at what they do before anything more is learned from this reward"
    )


def shifting_verdicts(series: Series, thresholds: Thresholds) -> str:
    """The verdict that has grown most, but for PASSED, which is what is wanted, and TAMPERED, which has its own."""
    if not thresholds.verdict_shift or not latest(series, PASSED, LATEST) or len(series) < FIRST + LATEST:
        return ""
    first, last = series[:FIRST], series[-LATEST:]
    verdicts = {name for metrics in last for name in metrics if name.startswith(VERDICT)} - {PASSED, TAMPERED}
    rises = {name: (_share(last, name) - _share(first, name)) for name in sorted(verdicts)}
    name = max(rises, key=lambda name: rises[name], default="")
    if not name or rises[name] <= thresholds.verdict_shift:
        return ""
    verdict = name.removeprefix(VERDICT).upper()
    return (
        f"{_share(last, name):.0%} of the programs end in {verdict}, where {_share(first, name):.0%} did at the start"
    )


def _tampered(series: Series) -> float:
    """0 where it is not known for each of the last steps."""
    return _share(series[-LATEST:], TAMPERED) if latest(series, PASSED, LATEST) else 0.0


def _share(series: Series, name: str) -> float:
    """A verdict that nothing ended in is not measured: its share is 0."""
    return sum(values(series, name)) / len(series)
