"""No log grows without bound."""

import asyncio
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from ratchet_kit import files, log_files

WRITES = "import itertools\nfor n in itertools.count():\n    print('line', n, 'x' * 100, flush=True)"


def test_a_short_log_stays_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert not log_files.cut(log, 10)
    log.write_text("0123456789")
    assert not log_files.cut(log, 10)
    assert [file.name for file in tmp_path.iterdir()] == ["a.log"]


def test_of_a_long_one_the_end_is_kept_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("ab", buffering=0) as writing:
        writing.write(b"0123456789abc")
        assert log_files.cut(log, 10)
        writing.write(b"later")
    assert log.read_text() == "later"
    assert (tmp_path / "a.log.1").read_text() == "3456789abc"


def test_one_whose_end_cannot_be_kept_is_cut_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("0123456789abc")
    (tmp_path / "a.log.1").mkdir()
    assert log_files.cut(log, 10)
    assert log.read_text() == ""


async def test_what_a_process_writes_has_a_bound(tmp_path: Path) -> None:
    """And one that cannot be cut holds up no other."""
    log, odd, stop = tmp_path / "a.log", tmp_path / "odd.log", asyncio.Event()
    odd.symlink_to(odd)
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-c", WRITES], stdout=output)  # noqa: ASYNC220
    bounding = asyncio.create_task(
        log_files.bound(lambda: [odd, log], stop, max_bytes=50_000, look=timedelta(milliseconds=20))
    )
    try:
        cuts, last, end = 0, 0, time.monotonic() + 60
        while cuts < 2 and time.monotonic() < end:
            size = log.stat().st_size
            cuts, last = cuts + (size < last), size
            await asyncio.sleep(0.001)
    finally:
        process.kill()
        process.wait()
        stop.set()
        await bounding
    assert cuts == 2
    assert (tmp_path / "a.log.1").stat().st_size <= 50_000


def test_the_end_of_a_log_that_was_cut_since(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("after the cut\n")
    assert files.tail(log, 3, start=1000) == ["after the cut"]
