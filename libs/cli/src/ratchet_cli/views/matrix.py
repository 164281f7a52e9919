"""How a matrix of evaluations is shown: models down, benchmarks and temperatures across."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.output import print_table, say
from ratchet_workflows.matrices import Cell, Gain, MatrixNews, rows, score

COLOURS = {"SUCCEEDED": "green", "RUNNING": "yellow", "FAILED": "red", "CANCELLED": "red"}


def panel(news: MatrixNews) -> RenderableType:
    columns = list(dict.fromkeys(cell.column for cell in news.cells))
    table = Table(box=None, pad_edge=False)
    for name in ("", *columns):
        table.add_column(name)
    for model, row in rows(news.cells).items():
        table.add_row(model, *(_progress(row[column]) if column in row else Text() for column in columns))
    return table


def show(cells: Sequence[Cell], gains: Sequence[Gain]) -> None:
    """The matrix, what models gained over what they were trained from, and why cells have no score."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    print_table(
        ("pass@1", *columns),
        [
            (model, *(score(row[column]) if column in row else "" for column in columns))
            for model, row in rows(cells).items()
        ],
    )
    if gains:
        say("")
        print_table(
            ("model", "gained over", "of", "difference", "95 % interval", "p"), [_gained(gain) for gain in gains]
        )
    for cell in cells:
        if cell.fault:
            say(f"{cell.name}: {cell.fault}")
    if done := [cell.evaluation.id for cell in cells if cell.evaluation]:
        say(f"As a page: ratchet report {' '.join(done)}")


def _gained(gain: Gain) -> Sequence[str]:
    if gain.comparison is None:
        return gain.model, gain.over, gain.column, gain.error, "", ""
    found = gain.comparison.difference
    interval = f"{found.low:+.3f} to {found.high:+.3f}"
    return gain.model, gain.over, gain.column, f"{found.value:+.3f}", interval, f"{gain.comparison.p_value:.2g}"


def _progress(cell: Cell) -> Text:
    if cell.state == "SUCCEEDED":
        return Text(score(cell), "green")
    if cell.evaluation and not cell.has_ended:
        return Text(
            f"{cell.evaluation.problems_done}/{cell.evaluation.problems_total or '?'}", COLOURS.get(cell.state, "")
        )
    return Text(cell.state, COLOURS.get(cell.state, "red"))
