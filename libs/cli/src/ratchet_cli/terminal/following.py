"""How something that takes a while is shown: a live panel in a terminal, a line now and then elsewhere. On stderr."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Protocol

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import stderr
from ratchet_client.errors import RatchetClientError
from ratchet_kit.times import duration, time_left

SECONDS_BETWEEN_LINES = 30.0
LINES = 20
"""About so many lines are printed from the beginning to the end of what has a known length."""


class View(Protocol):
    """What is followed."""

    def panel(self) -> RenderableType:
        """All of it, for a terminal. It is called from a thread of its own, four times a second."""

    def news(self) -> list[str]:
        """What has changed since the last call, a line each, for where there is no terminal."""


@contextmanager
def following(
    view: View, *, quiet: bool = False, goes_on: str = "", log: Callable[[str], None] | None = None
) -> Iterator[Callable[[], None]]:
    """Shows `view` inside the block, which calls what it is given after each change.

    `goes_on`: the sentence for who interrupts what goes on without him, as a CommandError, or who loses sight of it.
    `log` gets the news, too, wherever it is shown.
    """
    is_live = stderr.is_terminal and not quiet
    has_lines = not (is_live or quiet)

    def changed() -> None:
        for line in view.news() if has_lines or log else ():
            if has_lines:
                stderr.print(line, markup=False, soft_wrap=True)
            if log:
                log(line)

    try:
        with Live(get_renderable=view.panel, console=stderr, refresh_per_second=4) if is_live else nullcontext():
            yield changed
    except KeyboardInterrupt:
        if not goes_on:
            raise
        raise CommandError(goes_on, 130) from None
    except RatchetClientError:
        if goes_on:
            stderr.print(goes_on, markup=False, soft_wrap=True)
        raise


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
    """A View of work that is counted: `noun` are done, of a total that may not be known at first."""

    def __init__(self, title: str, noun: str) -> None:
        self._title = title
        self._noun = noun
        self._waits_for = ""
        self._is_said = True
        self._done = self._total = 0
        self._begin()

    def _begin(self) -> None:
        self._start, self._pace = time.monotonic(), Pace()
        self._first: tuple[float, int] | None = None
        """When the first were done, and how many."""

    def wait(self, reason: str) -> None:
        """Nothing is counted until the next update."""
        if reason != self._waits_for:
            self._waits_for, self._is_said = reason, False

    def update(self, done: int, total: int, noun: str = "") -> None:
        """`noun`: what is counted from now on, where that is something else than before."""
        if self._waits_for or (noun and noun != self._noun):
            self._waits_for, self._noun = "", noun or self._noun
            self._begin()
        if done and self._first is None:
            self._first = time.monotonic(), done
        self._done, self._total = done, total

    def panel(self) -> RenderableType:
        if self._waits_for:
            return Text(f"{self._title}: waits for {self._waits_for}")
        done, total = self._done, self._total
        bar = ProgressBar(total=total or None, completed=done, width=20, pulse=not total)
        row = Table.grid(padding=(0, 1))
        row.add_row(self._title, bar, f"{done} of {total or '?'} {self._noun}{self._time_left(done, total)}")
        return row

    def news(self) -> list[str]:
        if self._waits_for:
            is_said, self._is_said = self._is_said, True
            return [] if is_said else [f"{self._title}: waits for {self._waits_for}"]
        done, total = self._done, self._total
        if not self._pace.is_due(done, total):
            return []
        return [f"{self._title}: {done} of {total} {self._noun}{self._time_left(done, total)}"]

    def _time_left(self, done: int, total: int) -> str:
        now = time.monotonic()
        left = None
        if self._first and done < total:  # what comes before the first one says nothing of the pace
            time_of_first, before = self._first
            left = time_left(done - before, total - before, timedelta(seconds=now - time_of_first))
        return f", {duration(now - self._start)}" if left is None else f", about {duration(left.total_seconds())} left"


class Waiting:
    """A View of what says nothing until it is done."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._start = time.monotonic()

    def panel(self) -> RenderableType:
        return f"{self._sentence}, {duration(time.monotonic() - self._start)}"

    def news(self) -> list[str]:
        return [self._sentence]
