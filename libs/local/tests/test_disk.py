import os
from pathlib import Path

from ratchet_local.disk import entries
from ratchet_local.home import Home


def test_each_entry_says_what_it_takes_and_holds(tmp_path: Path) -> None:
    runs = tmp_path / "runs" / "run_1"
    runs.mkdir(parents=True)
    (runs / "weights").write_bytes(b"1" * 100_000)
    os.link(runs / "weights", runs / "same")
    (runs / "elsewhere").symlink_to("/")
    (tmp_path / "notes.txt").write_text("mine")
    largest, other = entries(Home(tmp_path))
    assert (largest.name, largest.files) == ("runs", 1)  # a file of two names is one; a link is not followed
    assert 100_000 <= largest.size < 120_000
    assert largest.kind.endswith("ratchet runs delete")
    assert (other.name, other.kind, other.files) == ("notes.txt", "", 1)


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert entries(Home(tmp_path / "none")) == []
