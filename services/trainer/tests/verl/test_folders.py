"""Folders of a driver on a machine that does not share them, by a real Ray."""

import errno
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="needs the trainer environment")

from ratchet_kit.errors import FailedPrecondition  # noqa: E402
from trainer_service.verl import folders  # noqa: E402
from trainer_service.verl.folders import Copies, Server  # noqa: E402

pytestmark = pytest.mark.verl


class Elsewhere:
    """A server whose paths are those of another machine: below `there` in place of `here`."""

    def __init__(self, here: str, there: str) -> None:
        self._server = Server([there])
        self._here, self._there = here, there

    def _at(self, path: str) -> str:
        return path.replace(self._here, self._there)

    def files(self, folder: str) -> dict[str, folders.File]:
        return self._server.files(self._at(folder))

    def read(self, file: str, start: int) -> bytes:
        return self._server.read(self._at(file), start)

    def write(self, file: str, start: int, piece: bytes, is_last: bool) -> None:
        self._server.write(self._at(file), start, piece, is_last)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.2")
    yield
    ray.shutdown()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here" / "run"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there" / "run").mkdir(parents=True)
    return tmp_path / "there" / "run"


@pytest.fixture
def copies(cluster: None, here: Path, there: Path) -> Copies:
    return Copies(here, ray.remote(Elsewhere).options(num_cpus=0).remote(str(here.parent), str(there.parent)))


def test_a_folder_is_fetched_whole_and_again_once_it_changed(
    copies: Copies, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (there / "base" / "deep").mkdir(parents=True)
    (there / "base" / "weights").write_bytes(bytes(range(256)) * 1000)
    (there / "base" / "deep" / "empty").touch()
    copies.fetch(here / "base")
    assert folders.files(here / "base") == folders.files(there / "base")
    assert (here / "base" / "weights").read_bytes() == bytes(range(256)) * 1000
    (here / "base" / "weights").write_bytes(b"half")
    (here / "base" / "of-before").touch()
    copies.fetch(here / "base")
    assert folders.files(here / "base") == folders.files(there / "base")


def test_in_pieces(copies: Copies, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "CHUNK", 1000)
    (here / "step").mkdir()
    for size in (0, 999, 1000, 1001, 2000, 3500):
        (here / "step" / str(size)).write_bytes(b"x" * size)
    copies.bring(here / "step")
    assert {int(file.name): file.stat().st_size for file in (there / "step").iterdir()} == {
        size: size for size in (0, 999, 1000, 1001, 2000, 3500)
    }
    assert not (here / "step").exists()


def test_a_folder_that_is_not_a_copy_is_left_alone(copies: Copies, here: Path, there: Path) -> None:
    for place, text in ((here, "own"), (there, "the driver's")):
        (place.parent / "model").mkdir()
        (place.parent / "model" / "weights").write_text(text)
    with pytest.raises(FailedPrecondition, match="has another"):
        copies.fetch(here.parent / "model")
    assert (here.parent / "model" / "weights").read_text() == "own"


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    server, file = Server([str(tmp_path)]), tmp_path / "of-a-rank.seconds"
    for text in (b"1.0 2.0", b"10.0 20.0"):
        before = file.read_bytes() if file.exists() else None
        server.write(str(file), 0, text[:3], False)
        assert (file.read_bytes() if file.exists() else None) == before
        server.write(str(file), 3, text[3:], True)
        assert file.read_bytes() == text
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_one_rank_of_a_machine_brings_what_all_write(
    copies: Copies, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that wrote a file at once replaced it by half of it, which the driver could not read. A full disk ends none:
    only the end of the driver."""
    monkeypatch.setattr(folders, "FOLLOWS_S", 0.01)
    (here / "usage").mkdir()
    (here / "usage" / "host-1.seconds").write_text("1.0 2.0")
    writers = list[int]()
    answers: list[Exception] = [OSError(errno.ENOSPC, "full")] * 5

    class Rank(Copies):
        def _write(self, source: Path) -> None:
            writers.append(threading.get_ident())
            raise answers.pop() if answers else RuntimeError("the driver has ended")

    ranks = [threading.Thread(target=Rank(here, None).follow, args=(here / "usage",)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(20)
    assert len(writers) == 7
    assert len({*writers[:6]}) == 1
    assert writers[6] != writers[5], "another goes on where one ends"


def test_two_runs_may_fetch_one_base(cluster: None, tmp_path: Path) -> None:
    """And who reads the one of before goes on with it."""
    here, there = tmp_path / "here", tmp_path / "there"
    (there / "model").mkdir(parents=True)
    (there / "model" / "weights").write_bytes(b"x" * 1000)
    server = ray.remote(Elsewhere).options(num_cpus=0).remote(str(here), str(there))
    runs = [Copies(here / "runs" / name, server) for name in ("one", "two")]
    fetching = [threading.Thread(target=run.fetch, args=(here / "model",)) for run in runs]
    for one in fetching:
        one.start()
    for one in fetching:
        one.join()
    with (here / "model" / "weights").open("rb") as opened:
        (there / "model" / "weights").write_bytes(b"y" * 999)
        runs[0].fetch(here / "model")
        assert opened.read() == b"x" * 1000
    assert folders.files(here / "model") == folders.files(there / "model")


def test_a_rank_may_come_while_the_copy_of_before_is_removed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not take for its own what is about to go."""
    (here / "base").mkdir(parents=True)
    (here / ".copy").touch()
    remove, there = shutil.rmtree, list[bool]()

    def removed(folder: Path, **options: bool) -> None:
        there.append(here.exists())
        remove(folder, **options)

    monkeypatch.setattr(folders.shutil, "rmtree", removed)
    assert Copies(here, None)
    assert there == [False]
    assert [one.name for one in here.parent.iterdir()] == [here.name]
    assert [one.name for one in here.iterdir()] == [".copy"]


def test_nothing_but_the_folders_of_the_run_is_served(tmp_path: Path) -> None:
    server = Server([str(tmp_path / "run")])
    (tmp_path / "secret").write_text("x")
    for path in (tmp_path / "secret", tmp_path / "run" / ".." / "secret", tmp_path / "runs"):
        with pytest.raises(PermissionError):
            server.read(str(path), 0)


def test_copies_of_runs_that_are_over_are_removed(copies: Copies, here: Path) -> None:
    own, over = here.parent / "own-of-the-machine", here.parent / "over"
    for folder in (own, over):
        folder.mkdir()
    (over / ".copy").touch()
    next_one = Copies(here.parent / "next", None)
    assert next_one
    assert [one.name for one in sorted(here.parent.iterdir())] == ["next", "own-of-the-machine", "run"]
