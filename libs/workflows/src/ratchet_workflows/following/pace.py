"""News of work under way, a line now and then."""

import math
import time
from datetime import timedelta

from ratchet_kit import times

SECONDS_BETWEEN_LINES = 30.0
LINES = 20
"""About as many lines are printed from the beginning to the end of work of known length."""


class Pace:
    """Says when a line is due: the first, the last, about LINES of them between, more often where it goes slowly."""

    def __init__(self) -> None:
        self._time = -math.inf
        self._done = 0

    def is_due(self, done: int, total: int) -> bool:
        """When it is, the line counts as printed."""
        now = time.monotonic()
        stride = max(1, total // LINES)
        waited = now - self._time >= SECONDS_BETWEEN_LINES
        due = done > self._done and (waited or done == total or done // stride > self._done // stride)
        if due:
            self._time, self._done = now, done
        return due


class Count:
    """Work that is counted: `noun` are done, of a total that may not be known at first."""

    def __init__(self, title: str, noun: str) -> None:
        self.title = title
        self.noun = noun
        self.waits_for = ""
        self._is_said = True
        self.done = self.total = 0
        self._begin()

    def _begin(self) -> None:
        self._start, self._pace = time.monotonic(), Pace()
        self._first: tuple[float, int] | None = None
        """When the first were done, and how many."""

    def wait(self, reason: str) -> None:
        """Nothing is counted until the next update."""
        if reason != self.waits_for:
            self.waits_for, self._is_said = reason, False

    def update(self, done: int, total: int, noun: str = "") -> None:
        """`noun`: what is counted from now on, where that is something else than before."""
        if self.waits_for or (noun and noun != self.noun):
            self.waits_for, self.noun = "", noun or self.noun
            self._begin()
        if done and self._first is None:
            self._first = time.monotonic(), done
        self.done, self.total = done, total

    def news(self) -> list[str]:
        if self.waits_for:
            is_said, self._is_said = self._is_said, True
            return [] if is_said else [f"{self.title}: waits for {self.waits_for}"]
        done, total = self.done, self.total
        if not self._pace.is_due(done, total):
            return []
        return [f"{self.title}: {done} of {total} {self.noun}{self.time_left(done, total)}"]

    def time_left(self, done: int, total: int) -> str:
        """ ", about 10 s left", or the time that it has taken."""
        now = time.monotonic()
        left = None
        if self._first and done < total:  # what comes before the first one says nothing of the pace
            time_of_first, before = self._first
            left = times.time_left(done - before, total - before, timedelta(seconds=now - time_of_first))
        return (
            f", {times.duration(now - self._start)}"
            if left is None
            else f", about {times.duration(left.total_seconds())} left"
        )
