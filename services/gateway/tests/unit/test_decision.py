"""The decision: what holds, moves on and rolls back; how often good candidates are rolled back and bad ones found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from gateway_service.domain.releases.decision import Advance, Decision, Expire, Hold, RollBack, decide
from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage, Unproven
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.sample import ArmSample, UnitLatency, quantile
from ratchet_kit.names import VersionRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAGES = (Stage(25, timedelta(minutes=1), 50), Stage(100, timedelta(0), 0))
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", STAGES)
RELEASE = Release("rel_1", SPEC, baseline=VersionRef("starter", 1), create_time=NOW).begin(NOW)
PROCEEDS = replace(RELEASE, spec=replace(SPEC, unproven=Unproven.PROCEED))
LATER = NOW + timedelta(minutes=2)


def sample(
    n: int = 2_000, errors: int = 0, score: float = 0.5, scored: int | None = None, slow: float = 1.0
) -> ArmSample:
    """Of n users with a request each, whose scores are all alike."""
    scored = n if scored is None else scored
    latencies = tuple(UnitLatency(f"user-{i}", slow * (0.1 + i / 1000)) for i in range(min(n, 200)))
    failures = Moments.of(np.ones(n), np.arange(n) < errors)
    return ArmSample(failures, Moments.of(np.ones(scored), np.full(scored, score)), latencies)


GOOD = sample()


def look(
    candidate: ArmSample, baseline: ArmSample = GOOD, release: Release = RELEASE, now: datetime = LATER
) -> Decision:
    return decide(release, Traffic(candidate, baseline, candidate, baseline, ArmSample()), now)


def test_quantile() -> None:
    assert quantile((), 0.95) == 0
    assert quantile((1.0,), 0.95) == 1
    assert quantile(tuple(float(n) for n in range(1, 101)), 0.95) == 95


def test_advances_when_time_samples_and_bounds_are_met() -> None:
    assert look(GOOD) == Advance("within bounds after 2000 requests at 25 %")


def test_holds_until_the_stage_was_long_enough() -> None:
    assert look(GOOD, now=NOW + timedelta(seconds=30)) == Hold("30 s of the stage's time are left")


def test_holds_until_there_are_enough_samples() -> None:
    assert look(sample(49)) == Hold("49 of 50 samples")
    scored = replace(RELEASE, spec=replace(SPEC, stages=(replace(STAGES[0], min_scored=3_000), STAGES[1])))
    assert look(GOOD, release=scored) == Hold("2000 of 3000 scored samples")


def test_rolls_back_before_the_stage_is_over() -> None:
    decision = look(sample(30, errors=30), now=NOW)
    assert isinstance(decision, RollBack)
    assert "error rate 100.0% (30 of 30)" in decision.reason


def test_rolls_back_what_is_slow() -> None:
    decision = look(sample(slow=3.0))
    assert isinstance(decision, RollBack)
    assert "p95 latency" in decision.reason


def test_rolls_back_what_answers_worse() -> None:
    decision = look(sample(score=0.2))
    assert isinstance(decision, RollBack)
    assert "quality 0.200" in decision.reason


def test_holds_what_is_suspected_and_not_shown_even_by_a_word() -> None:
    for release in (RELEASE, PROCEEDS):
        decision = look(sample(60, errors=2), release=release)
        assert isinstance(decision, Hold)
        assert decision.reason.startswith("more samples are needed to tell: error rate 3.3%")


def test_without_scores_it_holds_or_goes_on_by_a_word_and_says_so() -> None:
    held = look(sample(scored=0))
    assert isinstance(held, Hold)
    assert held.reason.startswith("not shown to hold yet: quality 0.000 over 0 answers")
    gone_on = look(sample(scored=0), release=PROCEEDS)
    assert isinstance(gone_on, Advance)
    assert "not shown to hold: quality 0.000 over 0 answers" in gone_on.reason


def test_a_small_share_may_be_given_unproven() -> None:
    stages = tuple(Stage(percent, timedelta(0), 50) for percent in (1, 5, 100))
    first = replace(RELEASE, spec=replace(SPEC, stages=stages))
    assert isinstance(look(sample(60), release=first), Advance)
    assert isinstance(look(sample(60), release=first.advance(NOW, "")), Hold)


def test_a_stage_that_is_not_decided_in_its_time_expires() -> None:
    assert isinstance(look(sample(49), now=NOW + timedelta(days=1)), Hold)
    late = look(sample(49), now=NOW + timedelta(days=1, minutes=2))
    assert late == Expire("the stage of 25 % was not decided in its time: 49 of 50 samples")


def test_scores_of_earlier_stages_count_and_errors_do_not() -> None:
    bad, none = sample(score=0.1, errors=1_000), sample(60, scored=0)
    assert isinstance(decide(RELEASE, Traffic(none, GOOD, replace(GOOD, scores=bad.scores), GOOD), LATER), RollBack)
    earlier = replace(GOOD, failures=bad.failures)
    assert not isinstance(decide(RELEASE, Traffic(none, GOOD, earlier, GOOD), LATER), RollBack)


def test_the_reference_stands_in_for_a_baseline_without_traffic() -> None:
    nothing, worse = ArmSample(), sample(score=0.1)
    assert isinstance(decide(RELEASE, Traffic(worse, nothing, worse, nothing, GOOD), LATER), RollBack)
    assert isinstance(decide(RELEASE, Traffic(GOOD, nothing, GOOD, nothing, GOOD), LATER), Advance)


def test_a_watched_champion_is_held_falls_back_or_is_let_go() -> None:
    watched = replace(PROCEEDS.promote(NOW, "").succeed(NOW))
    assert look(GOOD, release=watched) == Hold("it is watched for 3480 s more")
    assert isinstance(look(sample(score=0.1), release=watched), RollBack)
    assert isinstance(look(sample(49), release=watched, now=NOW + timedelta(hours=1)), Advance)


def test_one_user_with_many_requests_is_one_user() -> None:
    few = sample(10)
    many = replace(few, failures=Moments.of(np.full(10, 1_000.0), np.full(10, 1_000.0)))
    assert not isinstance(look(many), RollBack)


def found(drop: float, requests: int, releases: int, seed: int) -> int:
    """How many releases of sticky users' 0/1 scores are rolled back when looked at after every hundredth request."""
    generator, users, count = np.random.default_rng(seed), 200, 0
    for _ in range(releases):
        rates = np.clip(generator.normal([[0.5], [0.5 - drop]], 0.1, (2, users)), 0, 1)
        x, y = np.zeros((2, users)), np.zeros((2, users))
        for _ in range(requests // 100):
            for arm in (0, 1):
                asked = np.bincount(generator.integers(0, users, 50), minlength=users)
                x[arm] += asked
                y[arm] += generator.binomial(asked, rates[arm])
            arms = [
                replace(GOOD, scores=Moments.of(x[arm][x[arm] > 0], y[arm][x[arm] > 0]), latencies=()) for arm in (0, 1)
            ]
            if isinstance(look(arms[1], arms[0], now=NOW), RollBack):
                count += 1
                break
    return count


def test_a_candidate_as_good_is_hardly_ever_rolled_back_however_often_one_looks() -> None:
    assert found(0.0, 4_000, releases=100, seed=5) <= 1


def test_a_candidate_at_the_bound_is_rolled_back_in_less_than_alpha() -> None:
    assert found(0.05, 4_000, releases=100, seed=6) <= 5


def test_a_much_worse_candidate_is_found() -> None:
    assert found(0.3, 2_000, releases=50, seed=7) >= 48
