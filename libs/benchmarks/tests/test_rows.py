"""Tables in every container come to the same rows, and what is no table is refused with its place."""

import gzip
import importlib
import io
import json

import pytest

from ratchet_benchmarks import rows
from ratchet_kit.errors import InvalidArgument

TABLE = [{"id": 1, "text": "é\r\n\u2028x"}, {"id": 2, "text": ""}]
LINES = "".join(json.dumps(row) + "\n" for row in TABLE).encode()


@pytest.mark.parametrize(
    "data", [LINES, json.dumps(TABLE).encode(), gzip.compress(LINES, mtime=0), b"\n" + LINES, b"\xef\xbb\xbf" + LINES]
)
def test_the_content_says_what_it_is(data: bytes) -> None:
    assert rows.parse(data, "a.file") == TABLE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"id": 1}\n{', "line 2 is not JSON"),
        (b'{"id": %s}' % (b"9" * 100_001), "line 1 has a whole number of 100001 digits"),
        (b'[{"id": 1, "id": 2}]', "a.file has 'id' twice in one object"),
        (b"[" * 100_000, "a.file is nested too deeply"),
        (b"", "holds no rows"),
        (b"[1]", "row 1 is not an object"),
        (b"\xff", "not UTF-8"),
        (gzip.compress(LINES, mtime=0)[:-9], "not a complete gzip"),
    ],
)
def test_what_is_no_table_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        rows.parse(data, "a.file")


def test_parquet_comes_to_the_same_rows() -> None:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(TABLE), file)
    assert rows.parse(file.getvalue(), "a.file") == TABLE
    with pytest.raises(InvalidArgument, match="not a complete parquet file"):
        rows.parse(b"PAR1....PAR1", "a.file")


def test_what_is_kept_is_read_back_and_has_only_the_fields() -> None:
    kept = rows.canonical(TABLE, ["text"], "a.file")
    assert rows.lines(kept) == [{"text": row["text"]} for row in TABLE]
    with pytest.raises(InvalidArgument, match="row 1 lacks answer"):
        rows.canonical(TABLE, ["answer"], "a.file")
