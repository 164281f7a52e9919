"""How the command shows what a workflow does."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from rich.console import RenderableType

from ratchet.eval.v1 import eval_pb2
from ratchet_cli.terminal.following import Drawn, count_panel, following
from ratchet_cli.terminal.output import print_heading, say
from ratchet_cli.views import evaluations, matrix, releases, runs
from ratchet_workflows.following.pace import Count
from ratchet_workflows.following.releases import ReleaseNews
from ratchet_workflows.following.runs import RunNews
from ratchet_workflows.matrices import MatrixNews
from ratchet_workflows.progress import News


class Terminal:
    """Progress on stdout, and on stderr what is followed. `quiet`: nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def stage(self, title: str) -> None:
        if not self._quiet:
            print_heading(title)

    def say(self, line: str) -> None:
        if not self._quiet:
            say(line)

    def measured(self, evaluation: eval_pb2.Evaluation) -> None:
        if not self._quiet:
            evaluations.show_result(evaluation)

    def following(self, work: News, goes_on: str = "") -> AbstractContextManager[Callable[[], None]]:
        return following(Drawn(work, _panel(work)), quiet=self._quiet, goes_on=goes_on)


def _panel(work: News) -> Callable[[], RenderableType]:
    match work:
        case RunNews():
            return partial(runs.panel, work)
        case ReleaseNews():
            return partial(releases.panel, work)
        case MatrixNews():
            return partial(matrix.panel, work)
        case Count():
            return partial(count_panel, work)
    raise TypeError(f"{type(work).__name__} has no panel")
