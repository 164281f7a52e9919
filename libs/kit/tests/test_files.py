import os
import stat
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from ratchet_kit import files
from ratchet_kit.text import clip


def test_the_last_lines_of_a_log(tmp_path):
    log = tmp_path / "log"
    assert files.tail(log, 3) == []
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert files.tail(log, 3) == ["line 9997", "line 9998", "line 9999"]
    start = log.stat().st_size
    with log.open("a") as file:
        file.write("later\n")
    assert files.tail(log, 3, start=start) == ["later"]


def test_last_words_are_the_last_line_with_text(tmp_path):
    log = tmp_path / "log"
    assert files.last_words(log) == ""
    log.write_bytes(b"Traceback:\n  KeyError: \xff'x'  \n\n \n")
    assert files.last_words(log) == "KeyError: \ufffd'x'"
    log.write_text("x" * 5000)
    assert files.last_words(log) == "x" * 497 + "..."


def test_a_secret_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "a" / "key"
    numbers = count()
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: files.secret(path, lambda: f"secret {next(numbers)}"), range(50)))
    assert len(set(given)) == 1
    assert path.read_text() == given[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "clipped"),
    [("short", "short"), ("x" * 8, "x" * 8), ("x" * 9, "xxxxx..."), ("ééééé", "éé..."), ("\ud800", "?")],
)
def test_text_is_clipped_by_bytes(text, clipped):
    assert clip(text, 8) == clipped


def test_a_file_is_whole_or_as_it_was(tmp_path):
    file = tmp_path / "folder" / "file"
    with files.whole(file) as draft:
        draft.write_text("one")
        assert not file.exists()
        with files.whole(file) as of_another:
            of_another.write_text("two")
        assert file.read_text() == "two"
    assert file.read_text() == "one"
    with pytest.raises(OSError, match="full"), files.whole(file) as draft:
        draft.write_text("half")
        raise OSError("full")
    assert file.read_text() == "one"
    assert os.listdir(file.parent) == ["file"]
