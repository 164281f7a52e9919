from datetime import timedelta
from typing import Any

from ratchet_testing.clock import ManualClock
from trainer_service.domain.run.heartbeat import Heartbeat
from trainer_service.domain.run.run import Run, RunId

MINUTE = timedelta(minutes=1)


def test_silence_is_counted_from_the_first_look_and_from_each_heartbeat(clock: ManualClock, make_spec: Any) -> None:
    long_ago = clock.now() - timedelta(days=1)
    run = Run.create(RunId("run_1"), make_spec(), long_ago).start(long_ago)
    heartbeat = Heartbeat(clock)
    assert heartbeat.silent_for(run) == timedelta(0)
    clock.advance(MINUTE)
    assert heartbeat.silent_for(run) == MINUTE
    run = run.beat(1, long_ago)  # whatever the clock of the one that heard it
    assert heartbeat.silent_for(run) == timedelta(0)
    clock.advance(MINUTE)
    assert heartbeat.silent_for(run) == MINUTE
    heartbeat.forget()
    assert heartbeat.silent_for(run) == timedelta(0)
