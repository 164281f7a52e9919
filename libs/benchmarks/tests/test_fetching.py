"""Data from a file and from a home: whole, checked, resumed, or refused with a clear reason."""

import contextlib
import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ratchet_benchmarks import BENCHMARKS, Benchmark, Edition, fetching, folder, rows
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, Unavailable

ROW = {
    "task_id": "T/0",
    "prompt": "def f():\n",
    "entry_point": "f",
    "canonical_solution": "    return 1\n",
    "test": "x",
}
DATA = gzip.compress("".join(json.dumps(ROW | {"test": f"{i}" * 999, "more": 1}) + "\n" for i in range(900)).encode())


def benchmark(*homes: str, data: bytes = DATA) -> Benchmark:
    known = BENCHMARKS["humaneval"]
    kept = rows.canonical(rows.parse(data, "data"), known.fields, "data")
    return replace(known, editions=(Edition("v1", hashlib.sha256(kept).hexdigest(), homes),))


class _Home(http.server.BaseHTTPRequestHandler):
    """Gives DATA; the first answer breaks off in the middle."""

    ranges: list[str | None]
    breaks: int

    def do_GET(self) -> None:
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.ranges.append(self.headers.get("Range"))
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(DATA) - begin))
        self.end_headers()
        type(self).breaks -= 1
        self.wfile.write(DATA[begin : len(DATA) // 2] if self.breaks >= 0 else DATA[begin:])

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def home(breaks: int = 0) -> Iterator[tuple[str, list[str | None]]]:
    kind = type("Home", (_Home,), {"ranges": [], "breaks": breaks})
    server = http.server.HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/data.gz", kind.ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_is_checked_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    found = fetching.take(benchmark(), tmp_path / "file")
    assert (found.rows, found.edition.version) == (900, "v1")
    assert len(folder.read_rows(found.benchmark, found.edition)) == 900


def test_other_data_are_refused_unless_taken_unchecked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps(ROW))
    with pytest.raises(DataLoss, match=r"no published state of humaneval.*known are v1 "):
        fetching.take(benchmark(), tmp_path / "file")
    found = fetching.take(benchmark(), tmp_path / "file", unchecked=True)
    assert found.edition.version == found.edition.digest
    assert folder.editions(found.benchmark) == [found.edition]


def test_a_file_that_is_no_table_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No such file"):
        fetching.take(benchmark(), tmp_path / "file")
    (tmp_path / "file").write_text('{"task_id": 1}')
    with pytest.raises(InvalidArgument, match="row 1 lacks prompt"):
        fetching.take(benchmark(), tmp_path / "file")


def test_damaged_data_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    found = fetching.take(benchmark(), tmp_path / "file")
    path = found.folder / "rows.jsonl"
    path.write_bytes(path.read_bytes().replace(b"T/0", b"T/1", 1))
    with pytest.raises(DataLoss, match="fetch humaneval` again"):
        folder.read_rows(found.benchmark, found.edition)


def test_a_home_that_breaks_off_is_asked_for_the_rest() -> None:
    seen: list[tuple[int, int]] = []
    with home(breaks=1) as (address, ranges):
        found = fetching.fetch(benchmark(address), progress=lambda done, total: seen.append((done, total)))
    assert found.rows == 900
    assert ranges == [None, f"bytes={len(DATA) // 2}-"]
    assert seen[-1] == (len(DATA), len(DATA))
    assert not list(folder.root().rglob("*.part"))


def test_what_an_interruption_left_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with home(breaks=1) as (address, ranges):

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetching.fetch(benchmark(address), progress=interrupt)
        assert not folder.editions(benchmark(address))
        assert fetching.fetch(benchmark(address)).rows == 900
    assert ranges[1]


def test_another_home_is_tried_and_wrong_data_are_not_kept() -> None:
    with home() as (address, _):
        wrong = replace(benchmark(address), editions=(Edition("v1", "0" * 64, (address,)),))
        with pytest.raises(DataLoss, match="no published state"):
            fetching.fetch(wrong)
        assert not folder.editions(wrong)
        assert fetching.fetch(benchmark("http://127.0.0.1:1/data.gz", address)).origin == address


def test_without_a_network_it_says_so() -> None:
    with pytest.raises(Unavailable, match=r"127.0.0.1:1/data cannot be reached: .*--from FILE"):
        fetching.fetch(benchmark("http://127.0.0.1:1/data"))
    with pytest.raises(NotFound, match="no version 'v2': use one of v1"):
        fetching.fetch(benchmark(), "v2")
