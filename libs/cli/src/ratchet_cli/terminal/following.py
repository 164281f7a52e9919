"""How something that takes a while is shown: a live panel in a terminal, a line now and then elsewhere. On stderr."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Protocol

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import stderr
from ratchet_client.errors import RatchetClientError

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
        self._start = time.monotonic()
        self._pace = Pace()
        self._done = 0
        self._total = 0

    def update(self, done: int, total: int, noun: str = "") -> None:
        """`noun`: what is counted from now on, where that is something else than before."""
        if noun and noun != self._noun:
            self._noun, self._start, self._pace = noun, time.monotonic(), Pace()
        self._done, self._total = done, total

    def panel(self) -> RenderableType:
        done, total = self._done, self._total
        bar = ProgressBar(total=total or None, completed=done, width=20, pulse=not total)
        row = Table.grid(padding=(0, 1))
        row.add_row(self._title, bar, f"{done} of {total or '?'} {self._noun}{self._time_left(done, total)}")
        return row

    def news(self) -> list[str]:
        done, total = self._done, self._total
        if not self._pace.is_due(done, total):
            return []
        return [f"{self._title}: {done} of {total} {self._noun}{self._time_left(done, total)}"]

    def _time_left(self, done: int, total: int) -> str:
        elapsed = time.monotonic() - self._start
        if not 0 < done < total:
            return f", {duration(elapsed)}"
        return f", about {duration(elapsed / done * (total - done))} left"


class Waiting:
    """A View of what says nothing until it is done."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._start = time.monotonic()

    def panel(self) -> RenderableType:
        return f"{self._sentence}, {duration(time.monotonic() - self._start)}"

    def news(self) -> list[str]:
        return [self._sentence]


def duration(seconds: float) -> str:
    """ "8 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
