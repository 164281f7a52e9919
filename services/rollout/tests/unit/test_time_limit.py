"""Code of strangers does not hold up an engine."""

import signal
import time

import pytest

from rollout_service.adapters.engines.time_limit import time_limit


def test_a_loop_ends_and_what_comes_after_has_its_time() -> None:
    with pytest.raises(TimeoutError, match=r"it takes more than 0\.1 s"), time_limit(0.1):
        while True:
            pass
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_what_is_quick_is_let_alone() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with time_limit(5):
        assert sum(range(1000)) == 499_500
    assert signal.getsignal(signal.SIGPROF) is before
