"""Tables as they are published: JSON lines, a JSON list or parquet, compressed or not. The content says which it is."""

import gzip
import importlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ratchet_kit import json_text
from ratchet_kit.errors import InvalidArgument

_MOST = 2 << 30
"""Bytes that a compressed table may come to."""


def parse(data: bytes, where: str) -> list[dict[str, Any]]:
    """`where` names the data in errors. Raises InvalidArgument."""
    if data[:2] == b"\x1f\x8b":
        data = _unzipped(data, where)
    rows = _parquet(data, where) if data[:4] == b"PAR1" else _json(data, where)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InvalidArgument(f"{where}: row {number} is not an object")
    if not rows:
        raise InvalidArgument(f"{where} holds no rows")
    return rows


def canonical(rows: Iterable[Mapping[str, Any]], fields: Sequence[str], where: str) -> bytes:
    """JSON lines of these fields: what is kept, and what a digest is over. Raises InvalidArgument for a row that lacks
    one."""
    lines = []
    for number, row in enumerate(rows, start=1):
        if missing := [name for name in fields if name not in row]:
            raise InvalidArgument(f"{where}: row {number} lacks {', '.join(missing)}")
        try:
            lines.append(json.dumps({name: row[name] for name in fields}, ensure_ascii=False) + "\n")
        except ValueError as error:
            raise InvalidArgument(f"{where}: row {number} cannot be kept: {error}") from error
    return "".join(lines).encode("utf-8", "surrogatepass")


def lines(data: bytes) -> list[dict[str, Any]]:
    """The value that `canonical` wrote."""
    return [json.loads(line) for line in data.decode("utf-8", "surrogatepass").split("\n") if line]


def _unzipped(data: bytes, where: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            found = file.read(_MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidArgument(f"{where} is not a complete gzip file: {error}") from error
    if len(found) > _MOST:
        raise InvalidArgument(f"{where} unpacks to more than {_MOST >> 30} GiB")
    return found


def _json(data: bytes, where: str) -> list[Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{where} is not UTF-8 at byte {error.start}") from error
    if text.lstrip()[:1] == "[":
        return list(_value(text, where))
    return [_value(line, f"{where} line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _value(text: str, where: str) -> Any:
    try:
        return json_text.read(text)
    except json_text.NotJson as error:
        raise InvalidArgument(f"{where} {error}") from error


def _parquet(data: bytes, where: str) -> list[Any]:
    # read when needed: few commands do, and it takes a while
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    try:
        return list(parquet.read_table(io.BytesIO(data)).to_pylist())
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidArgument(f"{where} is not a complete parquet file: {error}") from error
