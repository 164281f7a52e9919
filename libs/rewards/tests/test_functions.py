import pytest

import ratchet_rewards as rewards
from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.problem import CallTest, Problem

PROBLEM = Problem("p", "Write f.", (CallTest("[1]", "2"),) * 4, entry_point="f")


def execution(verdict: int, passed: int = 0, total: int = 4) -> pb.Execution:
    return pb.Execution(verdict=verdict, tests_passed=passed, tests_total=total, detail="seen")


@pytest.mark.parametrize(
    ("name", "seen", "score"),
    [
        ("tests_passed", execution(pb.VERDICT_PASSED, 4), 1.0),
        ("tests_passed", execution(pb.VERDICT_FAILED, 3), 0.0),
        ("tests_passed", execution(pb.VERDICT_TAMPERED), 0.0),
        ("tests_fraction", execution(pb.VERDICT_PASSED, 4), 1.0),
        ("tests_fraction", execution(pb.VERDICT_TIME_LIMIT, 3), 0.75),
        ("tests_fraction", execution(pb.VERDICT_TAMPERED, 3), 0.0),
        ("tests_fraction", execution(pb.VERDICT_PASSED, 0, 0), 1.0),
    ],
)
def test_scores(name: str, seen: pb.Execution, score: float) -> None:
    reward = rewards.get(name).score(PROBLEM, "", seen)
    assert reward.score == score
    assert reward.detail == "seen"
    assert "VERDICT_" + reward.verdict == pb.Verdict.Name(seen.verdict)


def test_a_composed_reward_tells_its_parts() -> None:
    reward = rewards.compose({"tests_passed": 0.8, "tests_fraction": 0.2})
    scored = reward.score(PROBLEM, "", execution(pb.VERDICT_FAILED, 2))
    assert scored.score == pytest.approx(0.1)
    assert scored.components == {"tests_passed": 0.0, "tests_fraction": 0.5}


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InvalidArgument, match="tests_fraction, tests_passed"):
        rewards.get("vibes")
    with pytest.raises(InvalidArgument):
        rewards.compose({})
    with pytest.raises(ValueError, match="already"):
        rewards.register("tests_passed", rewards.get("tests_passed"))
