from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_kit.storage import Folder


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.integration)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        url: str = request.getfixturevalue("s3_url")
        return url
    return str(tmp_path / "there") if request.param == "local" else f"memory://{uuid4().hex}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer" / "vocab.json").write_text("[1]")
    return folder


def test_what_was_uploaded_is_listed_read_and_downloaded(uri: str, model: Path, tmp_path: Path) -> None:
    Folder(uri).child("a").upload(model)
    folder = Folder(Folder(uri).child("a").uri)
    assert folder.sizes() == {"config.json": 2, "tokenizer/vocab.json": 3}
    assert folder.read("config.json") == b"{}"
    assert (folder.read("tokenizer/vocab.json", 1, 2), folder.read("tokenizer/vocab.json", end=2)) == (b"1", b"[1")
    folder.download(tmp_path / "back")
    assert (tmp_path / "back" / "tokenizer" / "vocab.json").read_text() == "[1]"


def test_what_another_client_wrote_later_is_seen(uri: str, model: Path) -> None:
    folder = Folder(uri)
    folder.upload(model)
    assert len(folder.sizes()) == 2
    (model / "more.json").write_text("")
    Folder(uri).upload(model)
    assert len(folder.sizes()) == 3


def test_nothing_is_left_of_a_deleted_folder(uri: str, model: Path) -> None:
    folder = Folder(uri)
    folder.upload(model)
    folder.delete()
    folder.delete()
    with pytest.raises(NotFound, match="no folder"):
        folder.sizes()


def test_a_missing_folder_or_file_is_not_found(uri: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Folder(uri).download(tmp_path / "back")
    with pytest.raises(NotFound):
        Folder(uri).read("config.json")


def test_a_local_folder_is_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folder("here").local == tmp_path / "here"
    assert Folder("here").uri == Folder(f"file://{tmp_path}/here/").uri == str(tmp_path / "here")
    assert Folder("memory://x").local is None


@pytest.mark.parametrize("uri", ["nonsense://x", "gs://bucket/x"])
def test_an_unknown_storage_is_an_invalid_argument(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be used"):
        Folder(uri)


def test_a_file_that_would_land_elsewhere_is_refused(tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}"
    filesystem, path = fsspec.url_to_fs(url)
    filesystem.pipe_file(f"{path}/a", b"")
    filesystem.store[f"{path}/../../evil"] = filesystem.store[f"{path}/a"]
    with pytest.raises(InvalidArgument, match="evil"):
        Folder(url).download(tmp_path / "back")


@pytest.mark.integration
def test_a_part_of_a_file_in_an_object_store_is_read(s3_url: str, model: Path) -> None:
    folder = Folder(s3_url).child("parts")
    folder.upload(model)
    name = "tokenizer/vocab.json"
    assert [folder.read(name), folder.read(name, end=2), folder.read(name, 1, 2)] == [b"[1]", b"[1", b"1"]


@pytest.mark.integration
def test_wrong_keys_are_a_failed_precondition(s3_url: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(FailedPrecondition):
        Folder(s3_url).upload(model)
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.mark.integration
def test_a_store_that_does_not_answer_is_unavailable(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(Unavailable):
        Folder(s3_url).sizes()
    fsspec.filesystem("s3").clear_instance_cache()


def test_single_files_are_written_whole_and_listed_by_name(uri: str, tmp_path: Path) -> None:
    folder = Folder(uri)
    assert folder.names() == []
    folder.write("parts/0", b"first")
    folder.write("parts/0", b"again")
    (tmp_path / "large").write_bytes(b"content")
    folder.put("contents/a", tmp_path / "large")
    assert folder.names() == ["contents", "parts"]
    assert (folder.child("parts").names(), folder.read("parts/0"), folder.read("contents/a", 1, 3)) == (
        ["0"],
        b"again",
        b"on",
    )
