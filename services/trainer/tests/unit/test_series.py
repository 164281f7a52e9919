from trainer_service.domain.guards.series import latest, mean_at_first, values

STEPS = [{"kl": 1.0}, {"kl": 3.0}, {}, {"kl": 5.0}]


def test_a_step_that_lacks_a_metric_says_nothing() -> None:
    assert values(STEPS, "kl") == [1.0, 3.0, 5.0]
    assert latest(STEPS, "kl", 1) == [5.0]
    assert latest(STEPS, "kl", 2) == []
    assert latest(STEPS[:1], "kl", 2) == []


def test_the_start_of_a_run_is_not_compared_with_itself() -> None:
    assert mean_at_first(STEPS, "kl", 2, before=1) == 2.0
    assert mean_at_first(STEPS, "kl", 2, before=3) is None
