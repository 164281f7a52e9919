from ratchet_policies.breaker import FIRST_PAUSE, LIMIT, LONGEST_PAUSE, Breaker


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def broken(now: Time, faults: int = LIMIT) -> Breaker:
    breaker = Breaker(now)
    for _ in range(faults):
        breaker.begin()
        breaker.failed()
    return breaker


def test_faults_in_a_row_open_it_and_an_answer_between_does_not() -> None:
    breaker = broken(Time(), LIMIT - 1)
    assert breaker.allows
    breaker.begin()
    breaker.succeeded()
    breaker.begin()
    breaker.failed()
    assert breaker.allows
    assert not broken(Time()).allows


def test_after_the_pause_one_request_tries_it() -> None:
    now = Time()
    breaker = broken(now)
    now.now += FIRST_PAUSE
    assert breaker.allows
    breaker.begin()
    assert not breaker.allows, "one is under way"
    breaker.succeeded()
    assert breaker.allows


def test_a_trial_that_fails_doubles_the_pause() -> None:
    now = Time()
    breaker = broken(now)
    now.now += FIRST_PAUSE
    breaker.begin()
    breaker.failed()
    now.now += FIRST_PAUSE
    assert not breaker.allows
    now.now += FIRST_PAUSE
    assert breaker.allows


def test_a_caller_that_leaves_says_nothing() -> None:
    now = Time()
    breaker = broken(now)
    now.now += FIRST_PAUSE
    breaker.begin()
    breaker.ended()
    assert breaker.allows, "another may try"


def test_the_pause_has_an_end() -> None:
    now = Time()
    breaker = broken(now, 50)
    now.now += LONGEST_PAUSE
    assert breaker.allows
