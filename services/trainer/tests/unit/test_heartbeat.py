from datetime import timedelta
from typing import Any

from ratchet_testing.clock import ManualClock
from trainer_service.domain.run.heartbeat import Pulse
from trainer_service.domain.run.run import Run, RunId

MINUTE = timedelta(minutes=1)


def test_silence_is_counted_from_the_first_look_and_from_each_heartbeat(clock: ManualClock, make_spec: Any) -> None:
    long_ago = clock.now() - timedelta(days=1)
    run = Run.create(RunId("run_1"), make_spec(), long_ago).start(long_ago)
    pulse = Pulse(clock)
    assert pulse.silent_for(run) == timedelta(0)
    clock.advance(MINUTE)
    assert pulse.silent_for(run) == MINUTE
    run = run.beat(1, long_ago)  # whatever the clock of the one that heard it
    assert pulse.silent_for(run) == timedelta(0)
    clock.advance(MINUTE)
    assert pulse.silent_for(run) == MINUTE
    pulse.forget()
    assert pulse.silent_for(run) == timedelta(0)
