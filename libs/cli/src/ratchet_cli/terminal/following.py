"""How something that takes a while is shown: a live panel in a terminal, a line now and then elsewhere. On stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import stderr
from ratchet_client.errors import RatchetClientError
from ratchet_kit.times import duration
from ratchet_workflows.following import pace
from ratchet_workflows.progress import News


class View(Protocol):
    """A piece of work that is followed."""

    def panel(self) -> RenderableType:
        """All of it, for a terminal. It is called from a thread of its own, four times a second."""

    def news(self) -> list[str]:
        """Changes since the last call, a line each, for output that is no terminal."""


@contextmanager
def following(view: View, *, quiet: bool = False, goes_on: str = "") -> Iterator[Callable[[], None]]:
    """Shows `view` inside the block, which calls what it is given after each change.

    `goes_on`: the sentence for who interrupts what goes on without him, as a CommandError, or who loses sight of it."""
    is_live = stderr.is_terminal and not quiet
    has_lines = not (is_live or quiet)

    def changed() -> None:
        for line in view.news() if has_lines else ():
            stderr.print(line, markup=False, soft_wrap=True)

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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A View of what a workflow tells, with the panel that is drawn of it."""

    work: News
    draw: Callable[[], RenderableType]

    def panel(self) -> RenderableType:
        return self.draw()

    def news(self) -> list[str]:
        return self.work.news()


class Count(pace.Count):
    """A View of work that is counted."""

    def panel(self) -> RenderableType:
        return count_panel(self)


def count_panel(count: pace.Count) -> RenderableType:
    if count.waits_for:
        return Text(f"{count.title}: waits for {count.waits_for}")
    done, total = count.done, count.total
    bar = ProgressBar(total=total or None, completed=done, width=20, pulse=not total)
    row = Table.grid(padding=(0, 1))
    row.add_row(count.title, bar, f"{done} of {total or '?'} {count.noun}{count.time_left(done, total)}")
    return row


class Waiting:
    """A View of what says nothing until it is done."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._start = time.monotonic()

    def panel(self) -> RenderableType:
        return f"{self._sentence}, {duration(time.monotonic() - self._start)}"

    def news(self) -> list[str]:
        return [self._sentence]
