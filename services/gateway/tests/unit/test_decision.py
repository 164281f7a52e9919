"""The decision: what holds, moves on and rolls back; how often good candidates are rolled back and bad ones found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from gateway_service.domain.releases import findings
from gateway_service.domain.releases.decision import Advance, Decision, Expire, Hold, RollBack, decide
from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage, Unproven
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import NO_TRAFFIC, ArmSample, quantile
from ratchet_kit.names import VersionRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAGES = (Stage(25, timedelta(minutes=1), 50), Stage(100, timedelta(0), 0))
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", STAGES)
RELEASE = Release(
    "rel_1", SPEC, baseline=VersionRef("starter", 1), create_time=NOW, baseline_p95=timedelta(seconds=4)
).begin(NOW)
PROCEEDS = replace(RELEASE, spec=replace(SPEC, unproven=Unproven.PROCEED))
LATER = NOW + timedelta(minutes=2)


def sample(
    n: int = 2_000,
    errors: int = 0,
    score: float = 0.5,
    scored: int | None = None,
    slow: float = 0.02,
    left: int = 0,
) -> ArmSample:
    """Of n users with a request each, and of those who left beside them; scores are all alike."""
    scored = n if scored is None else scored
    failures = Moments.of(np.ones(n), np.arange(n) < errors)
    leaving = Moments.of(np.ones(n + left), np.arange(n + left) < left)
    scores = Moments.of(np.ones(scored), np.full(scored, score))
    return ArmSample(failures, scores, (), leaving, Moments.of(np.ones(n), np.arange(n) < slow * n))


GOOD = sample()


def traffic(candidate: ArmSample, baseline: ArmSample = GOOD, stage: int = 0) -> Traffic:
    scores = {Cell(stage, Arm.CANDIDATE): candidate.scores, Cell(stage, Arm.BASELINE): baseline.scores}
    return Traffic(candidate, baseline, Strata(scores))


def look(
    candidate: ArmSample, baseline: ArmSample = GOOD, release: Release = RELEASE, now: datetime = LATER
) -> Decision:
    return decide(release, traffic(candidate, baseline, release.stage), now)


def test_quantile() -> None:
    assert quantile((), 0.95) == 0
    assert quantile((1.0,), 0.95) == 1
    assert quantile(tuple(float(n) for n in range(1, 101)), 0.95) == 95


def test_advances_when_time_samples_and_bounds_are_met() -> None:
    decision = look(GOOD)
    assert isinstance(decision, Advance)
    assert decision.reason.startswith(
        "Within bounds at 25 %: error rate 0.0 % (0 of 2,000) against the baseline's 0.0 %"
    )
    assert decision.reason.endswith("Next: 95 %.")


def test_holds_until_the_stage_was_long_enough() -> None:
    decision = look(GOOD, now=NOW + timedelta(seconds=30))
    assert decision == Hold("Held at 25 %: the stage lasts 30 s more. Fails if that takes more than 25 h.")


def test_holds_until_there_are_enough_samples() -> None:
    assert look(sample(49)).reason.startswith("Held at 25 %: 49 of the 50 requests that the stage waits for.")
    scored = replace(RELEASE, spec=replace(SPEC, stages=(replace(STAGES[0], min_scored=3_000), STAGES[1])))
    waits = "Held at 25 %: 2,000 of the 3,000 scored answers that the stage waits for."
    assert look(GOOD, release=scored).reason.startswith(waits)


def test_rolls_back_before_the_stage_is_over() -> None:
    decision = look(sample(30, errors=30), now=NOW)
    assert isinstance(decision, RollBack)
    assert decision.reason == (
        "Worse than allowed at 25 %: error rate 100.0 % (30 of 30) against the baseline's 0.0 % (0 of 2,000), up to "
        "2 points more is allowed. All traffic goes to starter@1."
    )


def test_rolls_back_what_is_slow() -> None:
    decision = look(sample(slow=0.15))
    assert isinstance(decision, RollBack)
    assert (
        "answers that took longer than 6.00 s, 1.5 times the baseline's p95: 15.0 % (300 of 2,000); 5 % may, or as "
        "many as of the baseline's took longer than 4.00 s: 2.0 % (40 of 2,000)"
    ) in decision.reason


def test_an_hour_in_which_all_are_slow_is_no_difference() -> None:
    assert not isinstance(look(sample(slow=0.4), sample(slow=0.4)), RollBack)
    assert isinstance(look(sample(slow=0.6), sample(slow=0.4)), RollBack)


def test_a_baseline_that_is_fast_since_it_answers_little_is_no_measure() -> None:
    assert isinstance(look(sample(slow=0.04), sample(slow=0.0)), Advance | Hold)


def test_rolls_back_what_answers_worse() -> None:
    decision = look(sample(score=0.2))
    assert isinstance(decision, RollBack)
    assert "quality 0.300 lower than the baseline's, over 2,000 and 2,000 scored answers" in decision.reason


@pytest.mark.parametrize(("answered", "left"), [(700, 300), (20, 200), (0, 100)])
def test_rolls_back_what_callers_leave(answered: int, left: int) -> None:
    """However few answers there are."""
    decision = look(
        sample(answered, left=left) if answered else ArmSample(leaving=Moments.of(np.ones(100), np.ones(100)))
    )
    assert isinstance(decision, RollBack)
    share = 100 * left / (answered + left)
    assert f"callers who left before their answer was complete: {share:.1f} % ({left:,} of {answered + left:,})" in (
        decision.reason
    )


def test_callers_who_leave_both_versions_are_no_difference() -> None:
    assert isinstance(look(sample(left=100), sample(left=100)), Advance)


def test_holds_what_is_suspected_and_not_shown_even_by_a_word() -> None:
    for release in (RELEASE, PROCEEDS):
        decision = look(sample(60, errors=2), release=release)
        assert isinstance(decision, Hold)
        assert decision.reason.startswith("Held at 25 %: error rate 3.3 % (2 of 60) against the baseline's 0.0 %")
        assert "Rolled back at about" in decision.reason


def test_a_hold_says_what_is_too_little_and_when_it_ends() -> None:
    held = look(sample(60, scored=30))
    assert isinstance(held, Hold)
    assert held.reason == (
        "Held at 25 %: 60 requests are too few to rule out an error rate more than 2 points higher, or to rule out "
        "more than 2 points more callers who leave before their answer is complete; 60 timed answers are too few to "
        "rule out a p95 latency more than 1.5 times the baseline's; 30 scored answers are too few to rule out a "
        "quality more than 0.05 lower. Continues at about 1,600 requests of 1,600 users (60 so far). Fails if that "
        "takes more than 24 h."
    )


def test_what_is_foreseen_comes_so() -> None:
    reason = look(sample(60, scored=60)).reason
    times = int(reason.split("Continues at about ")[1].split()[0].replace(",", ""))
    assert isinstance(look(sample(times, scored=times)), Advance)


def test_a_version_that_answered_nobody_is_foreseen_by_those_who_left() -> None:
    stages = tuple(replace(stage, min_samples=0, min_scored=0) for stage in SPEC.stages)
    held = look(sample(0, left=24), sample(22, left=200), release=replace(RELEASE, spec=replace(SPEC, stages=stages)))
    assert isinstance(held, Hold)
    assert "(24 of 24)" in held.reason
    assert "users (24 so far)" in held.reason


def test_without_scores_it_holds_or_goes_on_by_a_word_and_says_so() -> None:
    held = look(sample(scored=0))
    assert isinstance(held, Hold)
    missing = "to compare quality, each version needs traffic of 20 users"
    assert held.reason == f"Held at 25 %: {missing}. Fails if that takes more than 24 h."
    gone_on = look(sample(scored=0), release=PROCEEDS)
    assert isinstance(gone_on, Advance)
    assert gone_on.reason == (
        f"Nothing looks worse than allowed at 25 %. It is to proceed, though {missing}. Next: 95 %."
    )


def test_a_small_share_may_be_given_unproven() -> None:
    stages = tuple(Stage(percent, timedelta(0), 50) for percent in (1, 5, 100))
    first = replace(RELEASE, spec=replace(SPEC, stages=stages))
    assert isinstance(look(sample(60), release=first), Advance)
    assert isinstance(look(sample(60), release=first.advance(NOW, "")), Hold)


def test_a_stage_that_is_not_decided_in_its_time_expires() -> None:
    assert isinstance(look(sample(49), now=NOW + timedelta(days=1)), Hold)
    late = look(sample(49), now=NOW + timedelta(days=1, minutes=2))
    waits = "Held at 25 %: 49 of the 50 requests that the stage waits for."
    assert late == Expire(f"Not decided in the time of its stage. {waits}")


def test_the_last_stage_asks_for_no_proof_again_but_for_arms_that_can_be_compared() -> None:
    last, shown = RELEASE.advance(NOW, ""), {Cell(0, Arm.CANDIDATE): GOOD.scores, Cell(0, Arm.BASELINE): GOOD.scores}
    few = sample(60, scored=0)
    assert isinstance(decide(last, Traffic(few, few, Strata(shown)), LATER), Advance)
    held = decide(last, Traffic(few, sample(5, scored=0), Strata(shown)), LATER)
    assert isinstance(held, Hold)
    assert "to compare error rates, how many callers leave, latency, each version needs" in held.reason
    without = replace(last, spec=replace(SPEC, baseline_percent=0))
    assert isinstance(decide(without, Traffic(few, NO_TRAFFIC, Strata(shown)), LATER), Advance)


def test_an_only_stage_asks_for_proof() -> None:
    only = replace(RELEASE, spec=replace(SPEC, stages=STAGES[1:]))
    assert isinstance(look(sample(60), release=only), Hold)
    assert isinstance(look(GOOD, release=only), Advance)


def test_a_watched_champion_is_held_falls_back_or_is_let_go() -> None:
    watched = PROCEEDS.promote(NOW, "").succeed(NOW)
    assert look(GOOD, release=watched) == Hold("Watched for 58 min more as the champion.")
    assert isinstance(look(sample(score=0.1), release=watched), RollBack)
    over = NOW + timedelta(hours=1)
    let_go = look(sample(49), release=watched, now=over)
    assert let_go == Advance("Watched for 60 min as the champion, and not found to be worse than allowed.")
    alone = decide(watched, Traffic(GOOD), over)
    assert alone == Advance("Watched for 60 min, with too little traffic of starter@1 to compare with.")


def test_a_drop_after_the_promotion_is_not_hidden_by_what_came_before() -> None:
    watched = PROCEEDS.promote(NOW, "").succeed(NOW)
    before = {Cell(0, arm): sample(100_000).scores for arm in (Arm.CANDIDATE, Arm.BASELINE)}
    now = {Cell(2, Arm.CANDIDATE): sample(score=0.3).scores, Cell(2, Arm.BASELINE): sample(200).scores}
    assert isinstance(decide(watched, Traffic(GOOD, GOOD, Strata(before | now)), LATER), RollBack)


def test_feedback_on_the_stages_that_comes_during_the_watch_counts() -> None:
    watched = PROCEEDS.promote(NOW, "").succeed(NOW)
    late = {Cell(0, Arm.CANDIDATE): sample(score=0.2).scores, Cell(0, Arm.BASELINE): GOOD.scores}
    assert isinstance(decide(watched, Traffic(GOOD, GOOD, Strata(late)), LATER), RollBack)


def test_one_user_with_many_requests_is_one_user() -> None:
    few = sample(10)
    many = replace(few, failures=Moments.of(np.full(10, 1_000.0), np.full(10, 1_000.0)))
    assert not isinstance(look(many), RollBack)


def test_a_release_that_nobody_asked_says_so() -> None:
    asked = decide(RELEASE, traffic(NO_TRAFFIC, NO_TRAFFIC), LATER)
    assert isinstance(asked, Hold)
    assert "nobody has asked starter@2 yet; 50 requests are awaited" in asked.reason
    free = replace(PROCEEDS, spec=replace(PROCEEDS.spec, stages=(replace(STAGES[0], min_samples=0), STAGES[1])))
    moved = decide(free, traffic(NO_TRAFFIC, NO_TRAFFIC), LATER)
    assert isinstance(moved, Advance)
    assert moved.reason.startswith("Nobody has asked starter@2 at 25 %, so nothing is known of it.")
    assert {one.text.partition(": ")[2] for one in findings.look(RELEASE, traffic(NO_TRAFFIC, NO_TRAFFIC))} == {
        "nobody has asked starter@2 yet"
    }
