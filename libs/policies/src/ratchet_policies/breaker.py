"""A circuit breaker: an engine that fails again and again is left alone for a while.

The kept libraries (pybreaker, purgatory) guard one call at a time. Here the state is read before an engine is chosen
among several, and the trial after a pause is one request, not all that come.
"""

import time
from collections.abc import Callable

LIMIT = 3
"""Faults in a row that open it."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 60.0
"""Seconds. It doubles with each trial that fails."""


class Breaker:
    """Closed: all may pass. Open: none. Half open, after the pause: one, whose end decides."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._faults = 0
        self._until = 0.0
        self._trying = False

    @property
    def allows(self) -> bool:
        """True where one more request may pass now."""
        return self._faults < LIMIT or (not self._trying and self._now() >= self._until)

    def begin(self) -> None:
        """A request is sent. One of `succeeded`, `failed` and `ended` follows."""
        self._trying = self._faults >= LIMIT

    def succeeded(self) -> None:
        self._faults, self._trying = 0, False

    def failed(self) -> None:
        self._trying = False
        self._faults += 1
        if self._faults >= LIMIT:
            self._until = self._now() + min(FIRST_PAUSE * 2.0 ** (self._faults - LIMIT), LONGEST_PAUSE)

    def ended(self) -> None:
        """It says nothing of the engine: the caller left, or was at fault."""
        self._trying = False
