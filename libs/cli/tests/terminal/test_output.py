"""Tables and fields: what a pipe gets, and what a narrow terminal shows."""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.text import Text

from ratchet_cli.terminal import output
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import ago, print_fields, print_heading, print_list, print_table, sparkline

ID = "run_01JD3MZ5Y1W4C8T9Q2K7V6B0XN"
SENTENCE = "the job died 5 times, the last at step 7: it reported nothing for too long"
COLUMNS = ("id", "state", "result")
ROWS = [(ID, "FAILED", SENTENCE), ("run_2", Text("SUCCEEDED", "green"), "starter@2 [new]")]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, Callable[[], None]], list[str]]:
    """What `show` prints to a terminal of `width` columns; None: to a pipe."""

    def run(width: int | None, show: Callable[[], None]) -> list[str]:
        out = io.StringIO()
        console = Console(file=out, width=width or 80, force_terminal=width is not None, soft_wrap=True, no_color=True)
        monkeypatch.setattr(output, "stdout", console)
        monkeypatch.setattr("sys.stdout", out)
        show()
        return [line.rstrip() for line in out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()]

    return run


def test_a_pipe_gets_one_line_per_row(shown: Callable[..., list[str]]) -> None:
    assert shown(None, lambda: print_table(COLUMNS, ROWS, breakable=("result",))) == [
        "id                              state      result",
        f"{ID}  FAILED     {SENTENCE}",
        "run_2                           SUCCEEDED  starter@2 [new]",
    ]


def test_a_terminal_breaks_sentences_and_never_an_id(shown: Callable[..., list[str]]) -> None:
    lines = shown(80, lambda: print_table(COLUMNS, ROWS, breakable=("result",)))
    assert max(len(line) for line in lines) <= 80
    assert lines[1].startswith(f"{ID}  FAILED")
    assert len(lines) > 3


def test_a_terminal_that_is_too_narrow_gets_fields(shown: Callable[..., list[str]]) -> None:
    lines = shown(50, lambda: print_table(COLUMNS, ROWS, breakable=("result",)))
    assert lines[:3] == [f"id      {ID}", "state   FAILED", f"result  {SENTENCE}"]


def test_a_list_has_one_line_a_row_in_any_terminal(shown: Callable[..., list[str]]) -> None:
    columns = ("id", "name", "state")
    rows = [(ID, "a name of some length", f"FAILED: {SENTENCE}"), (ID, "b", "RUNNING")]

    def show() -> None:
        print_table(columns, rows, clipped=("name", "state"))

    assert shown(80, show) == [
        "id                              name                   state",
        f"{ID}  a name of some length  FAILED: the job died 5 t…",
        f"{ID}  b                      RUNNING",
    ]
    assert len(shown(60, show)[1]) == 60
    assert shown(None, show)[1].endswith(SENTENCE)


@pytest.mark.parametrize("width", [None, 20])
def test_a_field_is_one_line(shown: Callable[..., list[str]], width: int | None) -> None:
    assert shown(width, lambda: print_fields([("id", ID), ("why", "[it] is")])) == [f"id   {ID}", "why  [it] is"]


def test_no_rows_and_headings(shown: Callable[..., list[str]]) -> None:
    assert shown(None, lambda: print_table(("a", "b"), [])) == ["a  b"]
    assert shown(None, lambda: print_heading("gate")) == ["== gate"]


def test_a_sparkline_spans_its_range() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def test_a_cell_forges_no_row_and_turns_no_text(shown: Callable[..., list[str]]) -> None:
    forged = [("a", "fine\n\nb        accepted\u202e", "1")]
    (_, line) = shown(None, lambda: print_table(COLUMNS, forged, breakable=("result",)))
    assert "\u202e" not in line
    assert line.split() == ["a", "fine", "b", "accepted", "1"]


def test_a_list_is_sorted_by_any_column_and_says_where_it_is_cut(
    shown: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"m@2": ("0.95", "2h ago"), "m@10": ("-", "9m ago"), "m@1": ("0.9", "30s ago")}
    columns = {"model": str, "score": lambda name: rows[name][0], "made": lambda name: rows[name][1]}

    def order(sort: str, limit: int = 0) -> list[str]:
        shown_lines = shown(None, lambda: print_list(rows, limit, False, columns, sort=sort))  # type: ignore[type-var]
        return [line.split()[0] for line in shown_lines[1:]]

    assert order("") == ["m@2", "m@10", "m@1"]
    assert order("model") == ["m@1", "m@2", "m@10"]
    assert order("score") == ["m@1", "m@2", "m@10"]  # what has none comes last, in either order
    assert order("-score") == ["m@2", "m@1", "m@10"]
    assert order("made") == ["m@1", "m@10", "m@2"]
    with pytest.raises(CommandError, match="--sort size: choose one of model, score, made"):
        order("size")
    assert capsys.readouterr().err == ""
    assert order("made", limit=2) == ["m@1", "m@10"]
    assert capsys.readouterr().err == "There are more than these 2: --limit 0 shows all.\n"
    order("", limit=3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("seconds", "said"), [(-90, "1m ago"), (3, "0s ago"), (86_500 * 2, "in 2d"), (3700, "in 1h")])
def test_a_time_is_ago_or_to_come(seconds: float, said: str) -> None:
    moment = Timestamp()
    moment.FromDatetime(datetime.now(UTC) + timedelta(seconds=seconds))
    assert ago(moment) == said
