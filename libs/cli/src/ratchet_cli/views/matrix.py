"""How a matrix of evaluations is followed and shown: models down, benchmarks and temperatures across."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ratchet.common.v1 import statistics_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.terminal.following import Pace
from ratchet_cli.terminal.output import print_table, say
from ratchet_client.calls import to_json
from ratchet_client.names import state_name

ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}
COLOURS = {"SUCCEEDED": "green", "RUNNING": "yellow", "FAILED": "red", "CANCELLED": "red"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one benchmark at one temperature, and what became of it."""

    model: str
    benchmark: str
    temperature: float
    evaluation: pb.Evaluation | None = None
    error: str = ""
    """Why it has no evaluation."""

    @property
    def state(self) -> str:
        """ "REFUSED" where there is no evaluation."""
        return state_name(self.evaluation) if self.evaluation else "REFUSED" if self.error else "QUEUED"

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED or bool(self.error)

    @property
    def column(self) -> str:
        return f"{self.benchmark}, T {self.temperature:g}"

    @property
    def name(self) -> str:
        return f"{self.model} on {self.column}"

    @property
    def fault(self) -> str:
        """One sentence, where it has ended without a score."""
        if self.evaluation and self.state in ENDED - {"SUCCEEDED"}:
            return f"{self.state}: {self.evaluation.failure.message or self.evaluation.id}"
        return self.error

    def now(self, evaluation: pb.Evaluation) -> "Cell":
        return replace(self, evaluation=evaluation)

    def to_json(self) -> dict[str, Any]:
        found = {"model": self.model, "benchmark": self.benchmark, "temperature": self.temperature, "state": self.state}
        return found | ({"evaluation": to_json(self.evaluation)} if self.evaluation else {"error": self.error})


@dataclass(frozen=True, slots=True)
class Gain:
    """What a model gained over one that it was trained from."""

    model: str
    over: str
    column: str
    comparison: statistics_pb2.Comparison | None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        found = {"model": self.model, "over": self.over, "of": self.column}
        return found | ({"comparison": to_json(self.comparison)} if self.comparison else {"error": self.error})


class MatrixView:
    """A View of the cells."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = list(cells)
        self._pace = {place: Pace() for place in range(len(cells))}
        self._said: set[int] = set()

    def panel(self) -> RenderableType:
        columns = list(dict.fromkeys(cell.column for cell in self.cells))
        table = Table(box=None, pad_edge=False)
        for name in ("", *columns):
            table.add_column(name)
        for model, row in rows(self.cells).items():
            table.add_row(model, *(_progress(row[column]) if column in row else Text() for column in columns))
        return table

    def news(self) -> list[str]:
        lines = []
        for place, cell in enumerate(self.cells):
            if cell.has_ended and place not in self._said:
                self._said.add(place)
                lines.append(f"{cell.name}: {_score(cell) if cell.state == 'SUCCEEDED' else cell.fault}")
            elif cell.evaluation and not cell.has_ended:
                done, total = cell.evaluation.problems_done, cell.evaluation.problems_total
                if self._pace[place].is_due(done, total):
                    lines.append(f"{cell.name}: {done} of {total} problems")
        return lines


def rows(cells: Sequence[Cell]) -> Mapping[str, Mapping[str, Cell]]:
    """Model -> column -> cell."""
    found: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault(cell.model, {})[cell.column] = cell
    return found


def show(cells: Sequence[Cell], gains: Sequence[Gain]) -> None:
    """The matrix, what models gained over what they were trained from, and why cells have no score."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    print_table(
        ("pass@1", *columns),
        [
            (model, *(_score(row[column]) if column in row else "" for column in columns))
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


def _score(cell: Cell) -> str:
    rows = cell.evaluation.pass_at_k if cell.evaluation else ()
    for row in rows:
        if row.k == 1:
            return f"{row.estimate.value:.3f} [{row.estimate.low:.3f}, {row.estimate.high:.3f}]"
    return cell.state


def _progress(cell: Cell) -> Text:
    if cell.state == "SUCCEEDED":
        return Text(_score(cell), "green")
    if cell.evaluation and not cell.has_ended:
        return Text(
            f"{cell.evaluation.problems_done}/{cell.evaluation.problems_total or '?'}", COLOURS.get(cell.state, "")
        )
    return Text(cell.state, COLOURS.get(cell.state, "red"))
