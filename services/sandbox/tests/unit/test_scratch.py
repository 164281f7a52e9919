import os
import time
from pathlib import Path

import pytest

from sandbox_service.cage.lane import scratch


def test_nothing_stops_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(outside)
    (folder / ".moved-0").mkdir()
    (folder / ".moved-1").write_text("x")
    (folder / "many").mkdir()
    for number in range(50):
        (folder / "many" / f"folder{number}").mkdir()
        (folder / "many" / f"file{number}").write_text("x")
    os.mkfifo(folder / "many" / "pipe")
    (folder / "many" / "dangling").symlink_to("nowhere")
    here = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(3000):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        os.chmod(folder / "many" / "folder7", 0)
    finally:
        os.chdir(here)
    scratch.empty(str(folder))
    assert list(folder.iterdir()) == []
    assert (outside / "kept").exists()


def test_the_rights_on_the_folder_itself_are_given_back(tmp_path: Path) -> None:
    for mode in (0, 0o500, 0o300):
        (tmp_path / "file").write_text("x")
        tmp_path.chmod(mode)
        scratch.empty(str(tmp_path))
        assert tmp_path.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        scratch.empty(str(tmp_path / "link"))


def test_what_is_too_much_is_seen(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert not scratch.overfull(str(tmp_path), size=200_000, inodes=4)
    assert scratch.overfull(str(tmp_path), size=90_000, inodes=4)
    assert scratch.overfull(str(tmp_path), size=200_000, inodes=3)
    assert not scratch.overfull(str(tmp_path / "gone"))


def test_a_disk_that_fills_is_looked_at_before_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.Meter, "_INTERVAL", 3600)
    meter = scratch.Meter(str(tmp_path), size=1 << 20)
    assert not meter.over()
    for number in range(100):  # others may free as much of the disk meanwhile
        (tmp_path / f"file{number}").write_bytes(bytes(2 << 20))
        time.sleep(meter.patience())
        if meter.over():
            return
    raise AssertionError("never seen")
