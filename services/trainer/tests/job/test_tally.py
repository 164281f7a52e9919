from dataclasses import replace

from trainer_service.job.reward.rewarding import Earned
from trainer_service.job.samples.tally import Tallied, Tally, repetition


def test_repetition_is_the_share_of_runs_of_four_that_were_there_before() -> None:
    assert repetition([1, 2, 3, 4, 5, 6]) == 0
    assert repetition([7] * 13) == 0.9
    assert repetition([1, 2, 3]) == 0


def of(verdict: str, reward: float, clipped: bool = False) -> Tallied:
    earned = Earned(reward, before_length=reward, score=reward / 2, values={"style": 0.25}, cut=clipped, vetoed=clipped)
    return Tallied(verdict, earned, 0.5)


def test_a_step_has_shares_of_completions_and_of_groups() -> None:
    tally = Tally()
    tally.add([of("PASSED", 1), of("TIME_LIMIT", 0)])
    tally.add([of("TAMPERED", 0), of("FAILED", 0, clipped=True)])
    tally.add([])
    assert tally.take() == {
        "groups": 2,
        "verdict_passed": 0.25,
        "verdict_time_limit": 0.25,
        "verdict_tampered": 0.25,
        "verdict_failed": 0.25,
        "rewards_clipped": 0.25,
        "vetoed": 0.25,
        "score_mean": 0.125,
        "component_style": 0.25,
        "repetition_mean": 0.5,
        "groups_without_signal": 0.5,
    }
    assert tally.take() == {}


def test_a_step_has_what_its_completions_lose_by_their_length() -> None:
    tally = Tally()
    earned = Earned(0.7, before_length=1.0, score=1.0, values={"style": 0.25}, cut=False, vetoed=False)
    tally.add([of("PASSED", 1), Tallied("PASSED", earned, 0.5)])
    assert round(tally.take()["overlong_mean"], 9) == 0.15


def test_a_group_of_one_has_nothing_to_compare() -> None:
    tally = Tally()
    tally.add([of("FAILED", 0)])
    taken = tally.take()
    assert "groups_without_signal" not in taken
    assert taken["verdict_passed"] == 0


def test_of_a_second_hand_the_share_of_what_was_judged_by_it() -> None:
    tally = Tally()
    passed = of("PASSED", 1)
    tally.add([replace(passed, second_hand=True), replace(passed, second_hand=False), passed, of("FAILED", 0)])
    tally.add([replace(passed, second_hand=False), replace(passed, second_hand=False)])
    tally.add([of("FAILED", 0), passed])
    taken = tally.take()
    assert (taken["second_hand_failed"], taken["second_hand_groups"]) == (0.75, 2)
    tally.add([passed])
    assert "second_hand_failed" not in tally.take()
