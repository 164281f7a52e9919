"""How results are shown: tables and live lines for people, JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ratchet_client.client import to_json

stdout = Console()
stderr = Console(stderr=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

SPARKS = "▁▂▃▄▅▆▇█"


def print_json(value: Any) -> None:
    """One JSON document on stdout; messages as the REST API shows them."""
    typer.echo(json.dumps(_plain(value), indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return to_json(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "_values"):
        return [_plain(item) for item in value]
    return value


def print_messages(messages: Iterable[Message]) -> None:
    print_json([to_json(message) for message in messages])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    stdout.print(table)


def state_name(message: Any) -> str:
    """ "SUCCEEDED" of a message with a State enum."""
    return str(type(message).State.Name(message.state)).removeprefix("STATE_")


def ago(time: Timestamp) -> str:
    if not time.seconds:
        return "-"
    seconds = int((datetime.now(UTC) - time.ToDatetime(tzinfo=UTC)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return f"{max(seconds, 0)}s ago"


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 1.0, width: int = 40) -> str:
    """The last `width` values as a line of blocks, scaled to [low, high]."""
    span = (high - low) or 1.0
    return "".join(
        SPARKS[min(len(SPARKS) - 1, max(0, int((value - low) / span * len(SPARKS))))] for value in values[-width:]
    )
