"""Problems as parquet: how a data set is kept. A row holds what a line of JSONL holds, its tests as JSON in a text."""

import importlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import jsonl, messages
from ratchet_problems.problem import Problem, digest_of

MAGIC = b"PAR1"
ROWS_AT_ONCE = 1_000
_TEXTS = ("id", "prompt", "entry_point", "tests", "source", "licence", "structure", "language")
_LISTS = ("references", "tags")
_CONVERSATION = "conversation"
"""A column: what was said before the prompt."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A table that was written."""

    rows: int
    digest: str
    """As `data_digest`."""


def is_table(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write(problems: Iterable[Problem], path: Path) -> Kept:
    """Keeps ROWS_AT_ONCE of them in memory. Raises what their iterator raises."""
    pa, parquet = arrow()
    fields = [(name, pa.string()) for name in _TEXTS] + [(name, pa.list_(pa.string())) for name in _LISTS]
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([*fields, ("difficulty", pa.int32()), (_CONVERSATION, pa.list_(message))])
    digests: list[str] = []
    left = iter(problems)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := list(islice(left, ROWS_AT_ONCE)):
            digests += [problem.digest for problem in rows]
            writer.write_table(pa.Table.from_pylist([_row(problem) for problem in rows], schema=schema))
    return Kept(len(digests), digest_of(digests))


def count(path: Path) -> int:
    """Rows of a table that `write` made."""
    return int(arrow()[1].ParquetFile(path).metadata.num_rows)


def ids(file: IO[bytes]) -> Iterator[str]:
    """Ids of the problems of a table that `write` made."""
    for batch in arrow()[1].ParquetFile(file).iter_batches(columns=["id"]):
        yield from batch.column(0).to_pylist()


def expected(path: Path) -> int:
    """The number of rows of a user's file, JSONL or parquet, without reading them; 0 where it is not known."""
    if not is_table(path):
        with path.open("rb") as file:
            return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
    try:
        return count(path)
    except (arrow()[0].ArrowException, OSError):
        return 0


def read(path: Path, name: str, limit: int | None = None) -> tuple[Problem, ...]:
    """All problems of a table that `write` made, or the first `limit`; `name` stands in errors. Raises InvalidArgument
    for another file."""
    return tuple(islice(checked(path, name), limit))


def checked(path: Path, name: str) -> Iterator[Problem]:
    """The problems of a user's file, JSONL or parquet, one after another.

    Raises InvalidArgument as `jsonl.problems`, and for a file that is neither.
    """
    if is_table(path):
        records = ((f"{name} row {number}", number, row) for number, row in enumerate(rows(path, name), 1))
        return jsonl.problems(records, _record, name)
    lines = ((f"{name} line {number}", number, line) for number, line in jsonl.numbered_lines(path))
    return jsonl.problems(lines, jsonl.record, name)


def _row(problem: Problem) -> dict[str, Any]:
    record = problem.to_json()
    columns = {
        "prompt": problem.prompt,
        "tests": json.dumps(record["tests"], ensure_ascii=False),
        _CONVERSATION: messages.records(problem.conversation),
    }
    return {"tags": [], "language": problem.language} | record | columns


def without_none(record: Any) -> Any:
    """A record without the fields that it leaves open: a table has the columns of all its rows."""
    return {name: it for name, it in record.items() if it is not None} if isinstance(record, dict) else record


def _record(row: dict[str, Any], where: str) -> dict[str, Any]:
    record: dict[str, Any] = without_none(row)
    if before := record.pop(_CONVERSATION, None):
        record["prompt"] = [*before, {"role": "user", "content": record.get("prompt")}]
    if isinstance(record.get("prompt"), list):
        record["prompt"] = [without_none(message) for message in record["prompt"]]
    if isinstance(record.get("tests"), str):
        record["tests"] = jsonl.record(record["tests"], where)
    elif isinstance(record.get("tests"), list):
        record["tests"] = [without_none(test) for test in record["tests"]]
    if record.get("tests") == [] and record.get("references"):
        del record["tests"]
    return record


def rows(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """Rows of any parquet file, or an Arrow stream (.arrow), one after another; `name` stands in errors. Raises
    InvalidArgument."""
    pa, parquet = arrow()
    is_stream = path.suffix == ".arrow"
    try:
        batches = (
            pa.ipc.open_stream(pa.memory_map(str(path)))
            if is_stream
            else parquet.ParquetFile(path).iter_batches(batch_size=ROWS_AT_ONCE)
        )
        for batch in batches:
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InvalidArgument(
            f"{name} is not a complete {'Arrow' if is_stream else 'parquet'} file: {error}"
        ) from error


def arrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet, imported when needed: few commands do, and it takes a while."""
    return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
