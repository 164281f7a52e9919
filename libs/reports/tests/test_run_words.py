"""A run in words."""

from datetime import UTC, datetime, timedelta

from ratchet.common.v1 import model_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_reports.run_words import PHASES, reward, seconds_per_step, stage

START = datetime(2026, 11, 1, tzinfo=UTC)


def step(number: int, seconds: float, attempt: int = 1, **metrics: float) -> pb.Step:
    made = pb.Step(number=number, metrics=metrics, attempt=attempt)
    made.create_time.FromDatetime(START + timedelta(seconds=seconds))
    return made


def test_every_phase_has_its_words() -> None:
    assert set(PHASES) == {phase for phase in pb.Run.Phase.values() if phase}


def test_the_pace_is_that_of_the_present_attempt() -> None:
    assert seconds_per_step([]) is None
    before = [step(1, 0), step(2, 5), step(3, 600, attempt=2), step(4, 602, attempt=2)]
    assert seconds_per_step(before) is None
    assert seconds_per_step([*before, step(5, 604, attempt=2)]) == 2.0


def test_a_reward_in_a_line() -> None:
    assert reward(pb.RewardSpec(components=[pb.RewardComponent(name="style")])) == "style"
    components = [
        pb.RewardComponent(name="tests_passed", schedule=[pb.WeightPoint(step=1, weight=1), pb.WeightPoint(step=9)]),
        pb.RewardComponent(name="style", weight=0.2),
        pb.RewardComponent(name="safety", weight=0, veto_below=0.5),
    ]
    spec = pb.RewardSpec(components=components, combination=pb.RewardSpec.COMBINATION_WEIGHTED_SUM)
    assert reward(spec) == (
        "weighted_sum of tests_passed 1 at step 1 to 0 at step 9, style 0.2, safety 0 (vetoed below 0.5)"
    )
    judge = model_pb2.ModelRef(version=model_pb2.VersionRef(model="judge", number=2))
    preference = pb.RewardComponent(name="preference", weight=0.3, model=judge)
    assert reward(pb.RewardSpec(components=[preference])) == "preference 0.3 by judge@2"


def test_a_stage_in_a_line() -> None:
    assert stage(pb.CurriculumStage()) == "all problems; to the end of the run"
    assert stage(pb.CurriculumStage(max_difficulty=2, steps=10)) == "difficulty up to 2; to 10 steps"
    some = pb.CurriculumStage(min_difficulty=2, max_difficulty=3, tags=["lists", "text"], steps=9, pass_rate=0.6)
    assert stage(some) == "difficulty from 2 up to 3, tagged lists or text; to 9 steps or a pass rate of 0.6"
