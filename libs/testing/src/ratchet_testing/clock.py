"""A clock that moves only when told."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A `ratchet_kit.times.Clock` that starts at `start` and stands still until `advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> datetime:
        """Moves on and returns the new time."""
        self._now += by
        return self._now
