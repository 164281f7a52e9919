"""The statistics: known values, and how often good candidates are rolled back and bad ones found."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.releases.decision import Advance, Hold, RollBack, decide, difference, sequential_z
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage
from gateway_service.domain.traffic.sample import ArmSample, Traffic, quantile
from ratchet_kit.names import VersionRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(25, timedelta(minutes=1), 50), Stage(100, timedelta(0), 0)))
RELEASE = Release("rel_1", SPEC, baseline=VersionRef("starter", 1), create_time=NOW).begin(NOW)
LATER = NOW + timedelta(minutes=2)
FAST = tuple(0.1 + n / 1000 for n in range(200))


def good(n: int = 200) -> ArmSample:
    return ArmSample(requests=n, errors=0, latencies=FAST[:n], scored=n, mean_score=0.5)


def test_difference_known_values(monkeypatch: pytest.MonkeyPatch) -> None:
    # Newcombe, Statistics in Medicine 17 (1998) 873, table II, contrast (a) 56/70 - 48/80, method 10.
    monkeypatch.setattr("gateway_service.domain.releases.decision.sequential_z", lambda n: 1.959964)
    interval = difference(56 / 70, 70, 48 / 80, 80)
    assert (interval.low, interval.high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_sequential_z_is_wider_than_a_single_look_and_grows_slowly() -> None:
    assert 3.5 < sequential_z(30) < sequential_z(1000) < sequential_z(1_000_000) < 4.5


def test_quantile() -> None:
    assert quantile((), 0.95) == 0
    assert quantile((1.0,), 0.95) == 1
    assert quantile(tuple(float(n) for n in range(1, 101)), 0.95) == 95


def test_advances_when_time_samples_and_bounds_are_met() -> None:
    assert isinstance(decide(RELEASE, Traffic(good(), good(), good()), LATER), Advance)


def test_holds_until_the_stage_was_long_enough() -> None:
    early = decide(RELEASE, Traffic(good(), good(), good()), NOW + timedelta(seconds=30))
    assert early == Hold("30 s of the stage's time are left")


def test_holds_until_there_are_enough_samples() -> None:
    assert decide(RELEASE, Traffic(good(49), good(), good()), LATER) == Hold("49 of 50 samples")


def test_rolls_back_before_the_stage_is_over() -> None:
    broken = ArmSample(requests=30, errors=30)
    decision = decide(RELEASE, Traffic(broken, good(), good()), NOW)
    assert isinstance(decision, RollBack)
    assert "error rate 100.0% (30 of 30)" in decision.reason


def test_rolls_back_what_is_slow() -> None:
    slow = replace(good(), latencies=tuple(3 * latency for latency in FAST))
    decision = decide(RELEASE, Traffic(slow, good(), good()), LATER)
    assert isinstance(decision, RollBack)
    assert "p95 latency" in decision.reason


def test_rolls_back_what_answers_worse() -> None:
    worse = replace(good(), mean_score=0.2)
    decision = decide(RELEASE, Traffic(worse, good(), good()), LATER)
    assert isinstance(decision, RollBack)
    assert "quality 0.200" in decision.reason


def test_holds_what_is_suspected_and_not_shown() -> None:
    suspect = replace(good(60), errors=2)
    decision = decide(RELEASE, Traffic(suspect, good(), good()), LATER)
    assert isinstance(decision, Hold)
    assert decision.reason.startswith("more samples are needed to tell: error rate 3.3%")


def test_says_nothing_about_quality_without_scores() -> None:
    unscored = replace(good(), scored=0, mean_score=0.0)
    assert isinstance(decide(RELEASE, Traffic(unscored, good(), good()), LATER), Advance)


def test_the_reference_stands_in_for_a_baseline_without_traffic() -> None:
    worse = replace(good(), mean_score=0.1)
    assert isinstance(decide(RELEASE, Traffic(worse, ArmSample(), good()), LATER), RollBack)
    assert isinstance(decide(RELEASE, Traffic(good(), ArmSample(), good()), LATER), Advance)


def looks(chance: random.Random, candidate_score: float, requests: int) -> bool:
    """Whether a release of 0/1 scores is rolled back when looked at after every tenth request of each arm."""
    sums = {"candidate": 0, "baseline": 0}
    for n in range(1, requests + 1):
        sums["candidate"] += chance.random() < candidate_score
        sums["baseline"] += chance.random() < 0.5
        if n % 10 == 0:
            candidate, baseline = (
                ArmSample(n, 0, FAST[: min(n, 200)], n, sums[arm] / n) for arm in ("candidate", "baseline")
            )
            if isinstance(decide(RELEASE, Traffic(candidate, baseline, baseline), NOW), RollBack):
                return True
    return False


def test_a_candidate_as_good_is_hardly_ever_rolled_back_however_often_one_looks() -> None:
    chance = random.Random(5)
    assert sum(looks(chance, 0.5, 1000) for _ in range(200)) <= 2


def test_a_candidate_at_the_bound_is_rolled_back_in_less_than_alpha() -> None:
    chance = random.Random(6)
    assert sum(looks(chance, 0.45, 1000) for _ in range(200)) <= 10


def test_a_much_worse_candidate_is_found() -> None:
    chance = random.Random(7)
    assert sum(looks(chance, 0.2, 400) for _ in range(100)) >= 95
