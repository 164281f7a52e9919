from trainer_service.job.schedule import Schedule

STEPS = range(1, 11)


def test_steps_that_are_validated_are_saved_too() -> None:
    schedule = Schedule(steps=10, validate_every=4, checkpoint_every=3)
    assert [step for step in STEPS if schedule.is_validated(step)] == [4, 8, 10]
    assert [step for step in STEPS if schedule.is_saved(step)] == [3, 4, 6, 8, 9, 10]


def test_validation_at_the_end_only() -> None:
    schedule = Schedule(steps=10, validate_every=None, checkpoint_every=None)
    assert [step for step in STEPS if schedule.is_validated(step)] == [10]
    assert [step for step in STEPS if schedule.is_saved(step)] == [10]
