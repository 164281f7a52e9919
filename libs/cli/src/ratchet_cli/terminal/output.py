"""Output of commands: JSON for programs, tables and fields for people."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, TypeVar

import typer
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.errors import CommandError
from ratchet_client.calls import to_json

M = TypeVar("M", bound=Message)

# Results: a line is never broken, so that an id can be copied and grep finds it.
# Texts of others are shown as they are: rich makes a cross of ":x:".
stdout = Console(soft_wrap=True, highlight=False, emoji=False)
stderr = Console(stderr=True, highlight=False, emoji=False)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SortOption = Annotated[str, typer.Option(help="Column to sort by; -COLUMN: the largest first.", metavar="COLUMN")]

GAP = 2
NARROWEST = 20
"""Columns that a cell which may be broken gets at least."""

AGES = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Unit -> seconds."""

SPARKS = "▁▂▃▄▅▆▇█"


def print_json(value: Any) -> None:
    """One JSON document; messages as the REST API shows them."""
    typer.echo(json.dumps(_plain(value), indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return to_json(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def say(text: str) -> None:
    """A line on stdout, as it is."""
    stdout.print(text, markup=False)


def printable(text: str) -> str:
    """Without what moves a terminal's cursor, or turns the direction of what follows."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def print_heading(text: str) -> None:
    """A rule across a terminal; elsewhere a line."""
    if stdout.is_terminal:
        stdout.rule(Text(text, "bold"), align="left")
    else:
        say(f"== {text}")


def _one_line(text: str) -> str:
    """Keeps what somebody wrote from looking like rows of its own, and from turning the direction of what follows."""
    return re.sub(r"[\r\n\u2028\u2029]+", " ", re.sub(r"[\u202a-\u202e\u2066-\u2069]", "", text))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    breakable: Collection[str] = (),
    clipped: Collection[str] = (),
    right: Collection[str] = (),
) -> None:
    """Cells are texts of rich, or anything that str() shows.

    In a terminal, only cells of `breakable` columns take several lines; where even that does not fit, a row becomes a
    block of fields. With `clipped` columns every row is one line: their cells end in "…" where they have no room.
    Elsewhere every row is one line, however long.
    """
    cells = [[cell if isinstance(cell, Text) else Text(_one_line(str(cell))) for cell in row] for row in rows]
    widths = [max(len(name), *(row[i].cell_len for row in cells), 0) for i, name in enumerate(columns)]
    if not stdout.is_terminal:
        for line in ([Text(name) for name in columns], *cells):
            padded = (
                cell.plain.rjust(width) if name in right else cell.plain.ljust(width)
                for name, cell, width in zip(columns, line, widths, strict=True)
            )
            typer.echo((" " * GAP).join(padded).rstrip())
        return
    if clipped:
        room = stdout.width - GAP * (len(columns) - 1)
        allotted = _allot(room, dict(zip(columns, widths, strict=True)), clipped)
        for row in cells:
            for name, cell in zip(columns, row, strict=True):
                cell.truncate(allotted[name], overflow="ellipsis")
        widths = [allotted[name] for name in columns]
    narrowest = [min(w, NARROWEST) if name in breakable else w for name, w in zip(columns, widths, strict=True)]
    if not clipped and sum(narrowest) + GAP * (len(columns) - 1) > stdout.width:
        for row in cells:
            print_fields(zip(columns, row, strict=True))
            stdout.print()
        return
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in columns:
        justify: Any = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name not in breakable, overflow="fold")
    for row in cells:
        table.add_row(*row)
    stdout.print(table, soft_wrap=False)


def print_list(
    found: Iterable[M],
    limit: int,
    as_json: bool,
    columns: Mapping[str, Callable[[M], object]],
    breakable: Collection[str] = (),
    clipped: Collection[str] = (),
    sort: str = "",
) -> None:
    """The first `limit` of a list, all when it is 0; a line on stderr says when there are more. `columns`: name -> what
    it shows of an item. Raises CommandError for a `sort` that names no column."""
    if sort:
        found = _sorted(found, sort, columns)
    items = list(islice(found, limit + 1 if limit else None))
    more = bool(limit) and len(items) > limit
    items = items[:limit] if more else items
    if as_json:
        print_json(items)
    else:
        rows = [[show(item) for show in columns.values()] for item in items]
        print_table(list(columns), rows, breakable=breakable, clipped=clipped)
    if more:
        stderr.print(f"There are more than these {limit}: --limit 0 shows all.", markup=False, soft_wrap=True)


def _sorted(found: Iterable[M], sort: str, columns: Mapping[str, Callable[[M], object]]) -> list[M]:
    name, largest_first = sort.removeprefix("-"), sort.startswith("-")
    if name not in columns:
        raise CommandError(f"--sort {name}: choose one of {', '.join(columns)}.", code=2)
    cells = [(str(columns[name](item)), item) for item in found]
    with_value = sorted((one for one in cells if one[0] != "-"), key=lambda one: _order(one[0]))
    if largest_first:  # what looks the same, such as two ages of "2h", turns, too
        with_value.reverse()
    return [item for _, item in [*with_value, *(one for one in cells if one[0] == "-")]]


def _order(text: str) -> list[tuple[float, str]]:
    """A key by which "9m" comes before "2h", 0.9 before 0.95 and m@2 before m@10."""
    if of_time := re.fullmatch(r"(\d+)([smhd])( ago)?", text):
        return [(int(of_time[1]) * AGES[of_time[2]], "")]
    parts = re.split(r"(\d+(?:\.\d+)?)", text.casefold())
    return [(float(part), "") if place % 2 else (math.inf, part) for place, part in enumerate(parts) if part]


def _allot(room: int, widths: Mapping[str, int], clipped: Collection[str]) -> dict[str, int]:
    """The widths of columns that fit into `room`: those of `clipped` share what the others leave, the narrow ones
    first, and each keeps the width of its heading."""
    left, allotted = room - sum(width for name, width in widths.items() if name not in clipped), dict(widths)
    narrow_first = sorted(clipped, key=lambda name: widths[name])
    for place, name in enumerate(narrow_first):
        allotted[name] = min(widths[name], max(len(name), left // (len(narrow_first) - place)))
        left -= allotted[name]
    return allotted


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """A line per field."""
    shown = [(name, value if isinstance(value, Text) else Text(str(value))) for name, value in fields]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        stdout.print(Text.assemble((name.ljust(width + GAP), "bold"), value))


def age(time: Timestamp) -> str:
    """ "12m", in a list where each column counts."""
    return ago(time).removesuffix(" ago")


def when(time: Timestamp) -> str:
    """ "2026-11-27 08:12:31 UTC (12m ago)", in this machine's time zone; "-" without one."""
    if not time.seconds:
        return "-"
    return f"{time.ToDatetime(tzinfo=UTC).astimezone():%Y-%m-%d %H:%M:%S %Z} ({ago(time)})"


def ago(time: Timestamp) -> str:
    if not time.seconds:
        return "-"
    seconds = int((datetime.now(UTC) - time.ToDatetime(tzinfo=UTC)).total_seconds())
    if is_to_come := seconds < -AGES["m"]:  # less: the clocks of two machines
        seconds = -seconds
    unit = next(unit for unit, size in AGES.items() if seconds >= size or size == 1)
    number = f"{max(seconds, 0) // AGES[unit]}{unit}"
    return f"in {number}" if is_to_come else f"{number} ago"


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 1.0, width: int = 40) -> str:
    """The last `width` values as a line of blocks, scaled to [low, high]."""
    span = (high - low) or 1.0
    return "".join(
        SPARKS[min(len(SPARKS) - 1, max(0, int((value - low) / span * len(SPARKS))))] for value in values[-width:]
    )
