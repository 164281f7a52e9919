"""Pairs of answers as parquet: how a data set of them is kept. A row holds what a line of JSONL holds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import jsonl, messages, pairs, tables
from ratchet_problems.jsonl import MOST_FAULTS
from ratchet_problems.mapping import Columns, plain_name
from ratchet_problems.mapping import rows as rows_of
from ratchet_problems.pairs import Pair, PairForm
from ratchet_problems.problem import InvalidProblem, digest_of
from ratchet_problems.tables import ROWS_AT_ONCE, Kept

ANSWERS = ("chosen", "rejected")
"""Columns by which rows are known as pairs."""
_UNMAPPED = "origin"
_OWN = {"text", "messages", "origin", *ANSWERS}
"""Columns of a table that `write` made, as `ratchet data download` gives it."""
"""Is written by Ratchet alone."""
Records = Iterable[tuple[str, int, object]]
"""Each with where it is and its number."""


def are_pairs(names: Iterable[str], wanted: Mapping[str, str]) -> bool:
    """Tells whether a table with these columns, or those that are mapped so, holds pairs."""
    return set(ANSWERS) <= {*names, *wanted}


def columns(names: Iterable[str], wanted: Mapping[str, str]) -> Columns:
    """As `mapping.columns`, of the fields of a pair. Raises InvalidArgument."""
    names, known = list(dict.fromkeys(names)), [field for field in pairs.FIELDS if field != _UNMAPPED]
    if not wanted and set(names) >= _OWN:
        return Columns({name: name for name in names}, [])
    for field, column in wanted.items():
        if field not in known:
            raise InvalidArgument(f"a pair has no field {field!r}; it has {', '.join(known)}")
        if column and column not in names:
            raise InvalidArgument(f"there is no column {column!r}; there are {', '.join(names)}")
    found = {field: field for field in known if field in names} | dict(wanted)
    if "problem" in wanted and "prompt" not in wanted:
        found.pop("prompt", None)  # a pair has one of the two
    found = {field: column for field, column in found.items() if column}
    return Columns(found, [name for name in names if name not in found.values()])


def mapped(paths: Sequence[Path], of: Columns) -> Iterator[Pair]:
    """The pairs of files of any kind. Raises InvalidArgument, with the faults by row."""
    for path in paths:
        records = ((where, number, _mapped(of, row)) for number, (where, row) in enumerate(rows_of(path), 1))
        yield from _checked(records, plain_name(path))


def write(found: Iterable[Pair], path: Path) -> Kept:
    """Keeps ROWS_AT_ONCE of them in memory. Raises what their iterator raises."""
    pa, parquet = tables.arrow()
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    texts = pa.list_(pa.string())
    origin = pa.struct([("exchanges", texts), ("units", texts), ("time", pa.string())])
    fields = [(name, pa.string()) for name in ("id", "text", "problem", *ANSWERS)]
    schema = pa.schema([*fields, ("messages", pa.list_(message)), ("origin", origin)])
    digests: list[str] = []
    left = iter(found)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(left, ROWS_AT_ONCE)):
            digests += [pair.digest for pair in some]
            writer.write_table(pa.Table.from_pylist([_row(pair) for pair in some], schema=schema))
    return Kept(len(digests), digest_of(digests))


def checked(path: Path, name: str) -> Iterator[Pair]:
    """The pairs of a user's JSONL file, or of a table that `write` made, one after another. Raises InvalidArgument with
    up to MOST_FAULTS faults; also for a file that is neither, or holds no pair."""
    if tables.is_table(path):
        found = enumerate(tables.rows(path, name), 1)
        records: Records = ((f"{name} row {number}", number, _record(row)) for number, row in found)
    else:
        lines = jsonl.numbered_lines(path)
        records = ((where, at, jsonl.record(line, where)) for at, line in lines for where in [f"{name} line {at}"])
    return _checked(records, name)


def read(path: Path, name: str, limit: int | None = None) -> tuple[Pair, ...]:
    """All of a table that `write` made, or the first `limit`. Raises as `checked`."""
    return tuple(islice(checked(path, name), limit))


def _checked(records: Records, name: str) -> Iterator[Pair]:
    faults: list[InvalidProblem] = []
    form: PairForm = ""
    seen = 0
    for where, number, record in records:
        try:
            pair = pairs.read_record(record, where, f"{Path(name).stem}/{number}")
            form = pairs.common_form(form, pair, where)
        except InvalidProblem as error:
            faults.append(error)
            if len(faults) == MOST_FAULTS:
                break
            continue
        seen += 1
        if not faults:
            yield pair
    if faults:
        raise jsonl.at_fault(faults)
    if not seen:
        raise InvalidArgument(f"{name} holds no pairs")


def _mapped(of: Columns, row: Mapping[str, Any]) -> dict[str, Any]:
    """A missing id takes the row's number; messages have the columns of all rows in a table."""
    record = {field: row[column] for field, column in of.of.items() if row.get(column) is not None}
    if set(of.of) >= _OWN:
        return dict(_record({name: row.get(name) for name in of.of}))
    for field, value in record.items():
        if isinstance(value, list):
            record[field] = [tables.without_none(message) for message in value]
    if isinstance(record.get("id"), int):
        record["id"] = str(record["id"])
    return record


def _row(pair: Pair) -> dict[str, Any]:
    origin = pair.origin
    return {
        "id": pair.id,
        "text": pair.text,
        "problem": pair.problem,
        "chosen": pair.chosen,
        "rejected": pair.rejected,
        "messages": messages.records(pair.messages),
        "origin": origin and {"exchanges": origin.exchanges, "units": origin.units, "time": origin.time.isoformat()},
    }


def _record(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line of JSONL for a row; a table of another's making stays as it is."""
    if not row.keys() >= _OWN:
        return {name: value for name, value in row.items() if value is not None}
    record = {name: row[name] for name in ("id", "problem", *ANSWERS, "origin") if row.get(name)}
    if row["messages"]:
        answers = {name: [{"role": "assistant", "content": row[name]}] for name in ANSWERS}
        return record | answers | {"prompt": row["messages"]}
    return record | ({"prompt": row["text"]} if row["text"] else {})
