"""How a study is shown: a line for each run."""

from rich.console import RenderableType
from rich.table import Table

from ratchet_workflows.studies.news import StudyNews, situation

SHOWN = 12
"""The number of ended runs that a terminal shows, the last ones."""


def panel(news: StudyNews) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    cells = list(news.cells)
    ended = news.already + sum(cell.has_ended for cell in cells)
    table.add_row(news.title, f"{ended} of {news.total}")
    for cell in cells[-SHOWN:]:
        table.add_row(cell.name, situation(cell))
    return table
