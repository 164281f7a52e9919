"""Completions that change, against those of the first steps; each guard with what it must let pass."""

from collections.abc import Callable

import pytest

from trainer_service.domain.guards import drifts
from trainer_service.domain.guards.series import Series
from trainer_service.domain.spec.thresholds import Thresholds

WELL = {
    "response_tokens_mean": 60.0,
    "response_clip_ratio": 0.1,
    "repetition_mean": 0.3,
    "verdict_passed": 0.4,
    "verdict_failed": 0.6,
}


def then(bad: dict[str, float], first: int = 10, count: int = 5) -> list[dict[str, float]]:
    return [WELL] * first + [WELL | bad] * count


@pytest.mark.parametrize(
    ("guard", "bad", "said"),
    [
        (
            drifts.drifting_length,
            {"response_tokens_mean": 200.0},
            "completions have 200 tokens on average, where they had 60",
        ),
        (
            drifts.drifting_length,
            {"response_tokens_mean": 10.0},
            "completions have 10 tokens on average, where they had 60",
        ),
        (drifts.truncated, {"response_clip_ratio": 0.75}, "75% of the completions end at max_response_tokens"),
        (drifts.repeating, {"repetition_mean": 0.9}, "completions repeat themselves: 90% of their runs of four tokens"),
        (drifts.tampering, {"verdict_tampered": 0.05}, "5.0% of the programs of the last 5 steps tried to forge"),
        (drifts.mostly_tampering, {"verdict_tampered": 0.5}, "the policy learns to forge its verdicts: 50% of"),
        (
            drifts.shifting_verdicts,
            {"verdict_failed": 0.1, "verdict_time_limit": 0.5},
            "50% of the programs end in TIME_LIMIT, where 0% did",
        ),
    ],
)
def test_each_sees_its_own(guard: Callable[[Series, Thresholds], str], bad: dict[str, float], said: str) -> None:
    assert guard(then(bad), Thresholds()).startswith(said)
    assert guard([WELL] * 30, Thresholds()) == ""
    assert guard([], Thresholds()) == ""
    assert guard([{}] * 30, Thresholds()) == ""
    off = Thresholds(**dict.fromkeys(Thresholds.__dataclass_fields__, 0.0))
    assert guard(then(bad), off) == ""


@pytest.mark.parametrize(
    "steps",
    [
        then({"response_tokens_mean": 110.0}),
        then({"response_tokens_mean": 200.0}, first=5),  # there is no start to compare with yet
        then({"response_clip_ratio": 0.9}, count=2),
        then({"repetition_mean": 0.45}),
        then({"verdict_tampered": 0.09}, count=1),
        then({"verdict_passed": 0.95, "verdict_failed": 0.05}),  # more pass: that is what is wanted
        then({"verdict_passed": 0.2, "verdict_failed": 0.8}),
    ],
)
def test_what_a_good_run_may_do_trips_none(steps: list[dict[str, float]]) -> None:
    guards = (
        drifts.drifting_length,
        drifts.truncated,
        drifts.repeating,
        drifts.tampering,
        drifts.mostly_tampering,
        drifts.shifting_verdicts,
    )
    assert [guard(steps, Thresholds()) for guard in guards] == [""] * len(guards)
