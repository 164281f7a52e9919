"""Whether a job lives, as a driver hears it."""

from datetime import datetime, timedelta

from ratchet_kit.times import Clock
from trainer_service.domain.run.run import Run


class Heartbeat:
    """How long one driver has heard nothing of a run's job, by its own clock alone. Mutable: it remembers what it heard
    last, and when that was there first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: object = None
        self._since: datetime | None = None

    def silent_for(self, run: Run) -> timedelta:
        """`run`: as it was read just now."""
        heard, now = (run.attempt, run.update_time, run.heartbeat_time), self._clock.now()
        if self._since is None or heard != self._heard:
            self._heard, self._since = heard, now
        return now - self._since

    def forget(self) -> None:
        """Nothing could be heard meanwhile: the time counts from the next look."""
        self._since = None
