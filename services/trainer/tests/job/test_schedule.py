from typing import Any

from trainer_service.job.run.report import Stopped
from trainer_service.job.run.schedule import Schedule

STEPS = range(1, 11)


def test_steps_that_are_validated_are_saved_too() -> None:
    schedule = Schedule(steps=10, validate_every=4, checkpoint_every=3)
    assert [step for step in STEPS if schedule.is_validated(step)] == [4, 8, 10]
    assert [step for step in STEPS if schedule.is_saved(step)] == [3, 4, 6, 8, 9, 10]


def test_validation_at_the_end_only() -> None:
    schedule = Schedule(steps=10, validate_every=None, checkpoint_every=None)
    assert [step for step in STEPS if schedule.is_validated(step)] == [10]
    assert [step for step in STEPS if schedule.is_saved(step)] == [10]


def test_the_step_that_spends_the_last_tokens_is_the_last_and_validated() -> None:
    schedule = Schedule(steps=10, validate_every=4, checkpoint_every=None, max_tokens=250)
    spent = [schedule.spend(step, 100) for step in range(1, 4)]
    assert spent == [False, False, True]
    assert (schedule.steps, schedule.tokens) == (3, 300)
    assert [step for step in range(1, 4) if schedule.is_validated(step)] == [3]


def test_a_run_goes_on_with_the_tokens_of_its_checkpoint(make_spec: Any) -> None:
    schedule = Schedule.of(make_spec(steps=10, max_tokens=250), tokens=200)
    assert not schedule.is_spent
    assert schedule.spend(3, 50)
    assert Schedule.of(make_spec(steps=10, max_tokens=250), tokens=250).is_spent
    assert not Schedule.of(make_spec(steps=10), tokens=10**9).is_spent


def test_tokens_that_last_longer_than_the_steps_end_nothing() -> None:
    schedule = Schedule(steps=2, validate_every=None, checkpoint_every=None, max_tokens=250)
    assert not any(schedule.spend(step, 100) for step in (1, 2))
    assert schedule.is_validated(2)


def test_the_last_step_before_a_job_makes_room_is_saved_and_not_validated() -> None:
    schedule = Schedule(steps=10, validate_every=4, checkpoint_every=None)
    schedule.leave(6, Stopped("for another"))
    assert [step for step in STEPS if schedule.is_saved(step)] == [4, 6, 8, 10]
    assert not schedule.is_validated(6)
    schedule.leave(10, Stopped("for another"))
    assert schedule.leaves_at == 6, "at its last step a run ends as it is to end"


def test_the_step_in_which_the_budget_is_spent_is_the_last_and_validated(make_spec: Any) -> None:
    schedule = Schedule.of(make_spec(steps=10, budget=2.0), cost=0.5)
    spent = []
    for number, cost in ((1, 1.2), (2, 1.9), (3, 2.0)):
        schedule.cost = cost
        spent.append(schedule.spend(number, 100))
    assert spent == [False, False, True]
    assert schedule.steps == 3
    assert schedule.is_validated(3)
    assert Schedule.of(make_spec(steps=10, budget=2.0), cost=2.0).is_spent
