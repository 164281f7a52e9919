"""What callers may name: what is below the operator's folders and URLs, and nothing else."""

import os
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    (tmp_path / "secret").write_text("secret")
    return folder


@pytest.fixture
def places(own: Path) -> Places:
    return Places([str(own), "", " s3://bucket/models "])


def test_what_is_below_a_place_is_taken(places: Places, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)
    for uri in ("model", f"{own}/model", f"file://{own}/model", f"{own}/model/../model/."):
        assert places.check(uri) == str(own / "model")
        assert places.open(uri).sizes() == {"config.json": 2}
    for uri in ("s3://bucket/models", "s3://bucket/models/a", "s3://bucket/models/a/b/"):
        assert places.check(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "/etc",
        "/",
        "",
        ".",
        "~",
        "~root/.ssh",
        "~nobody-of-that-name/x",
        "{own}/..",
        "{own}/../secret",
        "{own}/model/../../secret",
        "{own}-evil",
        "{own}\0",
        "file:///etc",
        "file://host/etc",
        "file://{own}/../secret",
        "local:///etc",
        "s3://bucket",
        "s3://bucket/modelsevil",
        "s3://bucket/models/../keys",
        "s3://bucket/models/%2e%2e/keys",
        "s3://bucket/models/..\\keys",
        "s3://bucket/models//keys",
        "s3://bucket/models/a?versionId=1",
        "s3://other/models/a",
        "S3://bucket/models",
        "gs://bucket/models",
        "http://169.254.169.254/latest/meta-data",
        "http://metadata.google.internal/",
        "https://example.com/model",
        "ftp://127.0.0.1/x",
        "sftp://host/x",
        "github://owner:repo@main/x",
        "zip://model::s3://bucket/models/a.zip",
        "zip://*::file://{own}/a.zip",
        "tar://x::{own}/a.tar",
        "simplecache::s3://bucket/models/a",
        "simplecache::{own}/model",
        "filecache::http://127.0.0.1/",
        "reference://",
        "data:,x",
        "memory://bucket/models",
    ],
)
def test_what_is_elsewhere_is_refused(places: Places, own: Path, uri: str) -> None:
    for look in (places.check, places.open, places.file):
        with pytest.raises(InvalidArgument):
            look(uri.replace("{own}", str(own)))


def test_a_link_leads_nowhere_else(places: Places, own: Path, tmp_path: Path) -> None:
    (own / "out").symlink_to(tmp_path)
    with pytest.raises(InvalidArgument):
        places.check(str(own / "out" / "secret"))
    (own / "model" / "in.json").symlink_to(own / "model" / "config.json")
    assert len(places.open(str(own / "model")).sizes()) == 2
    (own / "model" / "vocab.json").symlink_to(tmp_path / "secret")
    folder = places.open(str(own / "model"))
    for read in (folder.sizes, lambda: folder.download(tmp_path / "copy"), lambda: folder.read("vocab.json")):
        with pytest.raises(InvalidArgument):
            read()
    assert not (tmp_path / "copy").exists()


def test_a_folder_that_a_link_leads_to_is_looked_at_as_well(places: Places, own: Path, tmp_path: Path) -> None:
    (own / "model" / "all").symlink_to(tmp_path)
    with pytest.raises(InvalidArgument):
        places.open(str(own / "model")).sizes()
    (own / "model" / "all").unlink()
    (own / "model" / "circle").symlink_to(own / "model")
    assert places.open(str(own / "model")).sizes() == {"config.json": 2}


def test_only_files_are_read(places: Places, own: Path) -> None:
    os.mkfifo(own / "model" / "pipe")
    os.mkfifo(own / "set.jsonl")
    with pytest.raises(InvalidArgument):
        places.open(str(own / "model")).sizes()
    for path in (own / "set.jsonl", own / "model"):
        with pytest.raises(InvalidArgument):
            places.file(str(path))
    assert places.file(str(own / "none.jsonl")) == own / "none.jsonl"


@pytest.mark.parametrize("name", ["a" * 300 + ".jsonl", "a/" * 3000 + ".jsonl"])
def test_a_name_that_no_disk_takes(places: Places, own: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: File name too long"):
        places.file(f"{own}/{name}")


def test_a_file_of_problems_has_a_size(places: Places, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet_kit.allowed_sources.MAX_SET_BYTES", 3)
    (own / "set.jsonl").write_text("1234")
    with pytest.raises(InvalidArgument):
        places.file(str(own / "set.jsonl"))


def test_a_model_has_a_size(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "model" / "large").write_bytes(b"0" * 100)
    assert Places([str(own)], max_bytes=102).open(str(own / "model")).sizes()["large"] == 100
    with pytest.raises(InvalidArgument):
        Places([str(own)], max_bytes=101).open(str(own / "model")).download(tmp_path / "copy")
    monkeypatch.setattr("ratchet_kit.storage.MAX_FILES", 1)
    with pytest.raises(InvalidArgument):
        Places([str(own)]).open(str(own / "model")).sizes()


def test_space_is_looked_at_before_a_copy(places: Places, own: Path, tmp_path: Path) -> None:
    with (own / "model" / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(ResourceExhausted):
        Places([str(own)], max_bytes=1 << 50).open(str(own / "model")).download(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_names_in_a_store_stay_below_the_copy(tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}"
    filesystem, path = fsspec.url_to_fs(url)
    filesystem.pipe_file(f"{path}/a", b"")
    folder = Places([url]).open(url)
    assert folder.sizes() == {"a": 0}
    filesystem.store[f"{path}//etc/evil"] = filesystem.store[f"{path}/a"]
    with pytest.raises(InvalidArgument, match="evil"):
        folder.download(tmp_path / "copy")
    with pytest.raises(NotFound):
        Places([url]).open(f"{url}/nothing").sizes()


@pytest.mark.parametrize(
    "root", ["http://host/models", "https://host", "s3://", "zip://x", "sftp://h/x", "s3://b/../c"]
)
def test_a_place_is_a_folder_or_a_bucket(root: str) -> None:
    with pytest.raises(InvalidArgument):
        Places([root])
