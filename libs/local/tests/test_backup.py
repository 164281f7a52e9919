"""A folder is saved while it is written to, and comes back whole, or not at all."""

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from ratchet_local import backup
from ratchet_local.errors import PlatformError
from ratchet_local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    home.admin_key()
    (home.artifacts / "runs" / "run_1").mkdir(parents=True)
    (home.artifacts / "runs" / "run_1" / "weights").write_bytes(b"w" * 100_000)
    (home.logs / "eval.log").write_text("long")
    with sqlite3.connect(home.databases / "trainer.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE pairs (a INTEGER, b INTEGER)")
    return home


def saved(home: Home) -> Path:
    file = home.path.parent / "saved.tar"
    backup.save(home, file, lambda done: None)
    return file


def test_comes_back_as_it_was(home: Home) -> None:
    key = home.key_file.read_text()
    file = saved(home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    home.path.rename(home.path.with_name("old"))
    backup.restore(home, file)
    assert home.key_file.read_text() == key
    assert stat.S_IMODE(home.key_file.stat().st_mode) == 0o600
    assert (home.artifacts / "runs" / "run_1" / "weights").read_bytes() == b"w" * 100_000
    assert not (home.logs / "eval.log").exists()
    assert not list(home.path.glob("backup*"))


def test_a_database_is_of_one_moment(home: Home) -> None:
    stop = threading.Event()

    def write() -> None:
        database = sqlite3.connect(home.databases / "trainer.db", timeout=30)
        number = 0
        while not stop.is_set():
            with database:
                database.execute("INSERT INTO pairs VALUES (?, ?)", (number, number))
                database.execute("UPDATE pairs SET b = a + ?", (number,))
            number += 1
        database.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        file = saved(home)
    finally:
        stop.set()
        writer.join()
    home.path.rename(home.path.with_name("old"))
    backup.restore(home, file)
    with sqlite3.connect(home.databases / "trainer.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert len({b - a for a, b in database.execute("SELECT a, b FROM pairs")}) <= 1


def test_refuses_what_would_lose_something(home: Home, tmp_path: Path) -> None:
    file = saved(home)
    with pytest.raises(PlatformError, match="Name a new file"):
        backup.save(home, file, lambda done: None)
    with pytest.raises(PlatformError, match="within what is saved"):
        backup.save(home, home.artifacts / "saved.tar", lambda done: None)
    with pytest.raises(PlatformError, match="is not empty"):
        backup.restore(home, file)
    elsewhere = Home(tmp_path / "elsewhere")
    with pytest.raises(PlatformError, match=f"RATCHET_HOME={home.path} ratchet restore"):
        backup.restore(elsewhere, file)
    assert not elsewhere.path.exists()
    with pytest.raises(PlatformError, match="no platform was started"):
        backup.save(elsewhere, tmp_path / "more.tar", lambda done: None)


@pytest.mark.parametrize("content", [b"", b"no tar at all", b"half"])
def test_what_is_no_backup_leaves_nothing(content: bytes, home: Home) -> None:
    file = saved(home)
    file.write_bytes(file.read_bytes()[:20_000] if content == b"half" else content)
    home.path.rename(home.path.with_name("old"))
    with pytest.raises(PlatformError, match="no backup"):
        backup.restore(home, file)
    assert not home.path.exists()
    assert sorted(path.name for path in home.path.parent.iterdir()) == ["old", "saved.tar"]


def test_models_of_a_user_are_not_mixed_with_those_of_a_backup(home: Home) -> None:
    file = saved(home)
    home.path.rename(home.path.with_name("old"))
    (home.path / "models").mkdir(parents=True)
    (home.path / "models" / "mine").touch()
    with pytest.raises(PlatformError, match="is not empty"):
        backup.restore(home, file)
    assert [path.name for path in home.path.rglob("*")] == ["models", "mine"]


def test_the_same_folder_by_another_name_is_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.path.parent)
    file = home.path.parent / "saved.tar"
    backup.save(Home(Path("home")), file, lambda done: None)
    home.path.rename(home.path.with_name("old"))
    backup.restore(home, file)
    assert home.databases.is_dir()


def test_where_nothing_can_be_written_is_said(home: Home, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="No such file or directory"):
        backup.save(home, tmp_path / "nowhere" / "saved.tar", lambda done: None)
    assert not list(tmp_path.glob("*.part"))
