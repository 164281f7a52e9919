"""Brings the cells of a study to their ends, some at once, by the public API only."""

import time
from collections.abc import Callable, Iterator, Sequence

from ratchet_client import Client, Unreachable
from ratchet_workflows.progress import Progress
from ratchet_workflows.studies.cells import Cell
from ratchet_workflows.studies.news import StudyNews
from ratchet_workflows.studies.plan import Plan
from ratchet_workflows.studies.records import Record

POLL_S = 2.0
PATIENCE_S = 600.0
"""How long nothing may answer before a study gives up for now."""


class Work:
    def __init__(
        self,
        client: Client,
        plan: Plan,
        record: Record,
        *,
        progress: Progress,
        begun: Callable[[Sequence[Cell]], None],
    ) -> None:
        """`begun` gets all cells that have begun after each look."""
        self._client = client
        self._plan = plan
        self._record = record
        self._progress = progress
        self._begun = begun

    def finish(
        self,
        title: str,
        cells: Iterator[Cell],
        total: int,
        looked: Callable[[Cell], None] = lambda cell: None,
        already: int = 0,
    ) -> list[Cell]:
        """All the cells, ended. The next one is asked for when there is room; `looked` is given a cell after each
        look at it, ended or not; `already` of the total have ended in an earlier command. Raises Unreachable when
        nothing answers for PATIENCE_S."""
        news = StudyNews(title, total, already)
        open_cells: list[Cell] = []
        answered = time.monotonic()
        with self._progress.following(news) as changed:
            while True:
                while len(open_cells) < self._plan.at_once and (cell := next(cells, None)) is not None:
                    open_cells.append(cell)
                    news.cells.append(cell)
                if not open_cells:
                    return news.cells
                try:
                    for cell in open_cells:
                        cell.advance(self._client, self._plan, self._record)
                        looked(cell)
                        answered = time.monotonic()
                except Unreachable:
                    if time.monotonic() - answered > PATIENCE_S:
                        raise
                self._begun(news.cells)
                changed()
                open_cells = [cell for cell in open_cells if not cell.has_ended]
                if len(open_cells) == self._plan.at_once:
                    time.sleep(POLL_S)
