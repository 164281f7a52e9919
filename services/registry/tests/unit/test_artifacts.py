"""The artifact store, on a folder and on object stores (in memory, and S3)."""

import asyncio
import errno
import shutil
import signal
import struct
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from ratchet_kit import policy_id
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted
from registry_service.adapters.artifacts import FsspecArtifactStore

TEMPORARY = tempfile.gettempdir()


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.integration)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        url: str = request.getfixturevalue("s3_url")
        return url
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid4().hex}"


def store_at(root: str, *places: str) -> FsspecArtifactStore:
    return FsspecArtifactStore(root, Places([*(places or [TEMPORARY]), root]))


def files_below(root: str) -> list[str]:
    fs, path = fsspec.url_to_fs(root, use_listings_cache=False)
    return sorted(fs.find(path))


async def test_an_artifact_is_a_copy_with_its_digests(root: str, model_folder: Any) -> None:
    source = model_folder()
    (source / "tokenizer").mkdir()
    (source / "tokenizer" / "vocab.json").write_text("{}")
    artifact = await store_at(root).ingest(str(source), "starter/art_1")
    assert artifact.policy_id == policy_id.of_folder(source)
    assert artifact.settings_id == policy_id.settings_of_folder(source)
    assert artifact.size_bytes == sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    shutil.rmtree(source)
    assert [name.split("art_1/")[1] for name in files_below(artifact.uri)] == [
        "config.json",
        "model.safetensors",
        "tokenizer/vocab.json",
    ]
    assert files_below(root) == files_below(artifact.uri), "nothing else is left in the store"


async def test_the_digest_is_of_content_and_names(root: str, model_folder: Any) -> None:
    store, source = store_at(root), model_folder()
    first = await store.ingest(str(source), "starter/a")
    again = await store.ingest(first.uri, "starter/b")
    assert again.sha256 == first.sha256
    (source / "config.json").rename(source / "config.bak.json")
    (source / "config.json").write_text("{}")
    assert (await store.ingest(str(source), "starter/c")).sha256 != first.sha256


async def test_links_are_followed(root: str, model_folder: Any, tmp_path: Path) -> None:
    """As in the snapshot folders of the Hugging Face cache."""
    source, links = model_folder(), tmp_path / "links"
    links.mkdir()
    for file in source.iterdir():
        (links / file.name).symlink_to(file)
    assert (await store_at(root).ingest(str(links), "a/b")).policy_id == policy_id.of_folder(source)


def not_a_number(folder: Path) -> None:
    """The last number of the weights."""
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-4] + struct.pack("<f", float("nan")))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no \*.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "cannot be read"),
        (not_a_number, r"cannot be read: tensor \S+ in \S+ has a value that is NaN"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 40), "cannot be read"),
        (
            lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1]),
            "cut short",
        ),
        (lambda folder: shutil.copy(folder / "model.safetensors", folder / "b.safetensors"), "comes twice"),
    ],
)
async def test_what_is_no_model_is_refused_and_leaves_nothing(
    root: str, model_folder: Any, spoil: Any, reason: str
) -> None:
    source = model_folder()
    spoil(source)
    with pytest.raises(InvalidArgument, match=reason):
        await store_at(root).ingest(str(source), "starter/art_1")
    assert files_below(root) == []


async def test_a_missing_source_is_not_found(root: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        await store_at(root).ingest(str(tmp_path / "nowhere"), "a/b")
    with pytest.raises(InvalidArgument, match=r"nonsense://x. cannot be used"):
        await store_at(root).ingest("nonsense://x", "a/b")


async def test_a_source_elsewhere_is_refused_and_leaves_nothing(tmp_path: Path, model_folder: Any) -> None:
    source = model_folder()
    (tmp_path / "own").mkdir()
    with zipfile.ZipFile(tmp_path / "own" / "model.zip", "w") as archive:
        for name in ("config.json", "../../slipped", "/slipped"):
            archive.writestr(name, "{}")
    store = store_at(str(tmp_path / "store"), str(tmp_path / "own"))
    for uri in (
        str(source),
        f"{tmp_path}/own/../{source.name}",
        f"zip://*::file://{tmp_path}/own/model.zip",
        f"zip://::{tmp_path}/own/model.zip",
        "http://169.254.169.254/model",
    ):
        with pytest.raises(InvalidArgument):
            store.check(uri, "source_uri")
        with pytest.raises(InvalidArgument):
            await store.ingest(uri, "a/b")
    assert [name for name in files_below(str(tmp_path)) if "slipped" in name or "/store/" in name] == []


async def test_what_is_no_model_is_not_copied(
    tmp_path: Path, model_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = model_folder()
    (source / "config.json").unlink()
    monkeypatch.setattr("shutil.copyfileobj", lambda *_: pytest.fail("a file was copied"))
    with pytest.raises(InvalidArgument, match=r"config.json is missing"):
        await store_at(str(tmp_path / "store")).ingest(str(source), "a/b")


async def test_a_full_disk_says_what_to_do(root: str, model_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = store_at(root)
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(ResourceExhausted, match="ARTIFACT_URL"):
        await store.ingest(str(model_folder()), "a/b")
    assert files_below(root) == []


async def test_delete_removes_all_and_may_be_repeated(root: str, model_folder: Any) -> None:
    store = store_at(root)
    artifact = await store.ingest(str(model_folder()), "a/b")
    await store.delete("a/b")
    await store.delete("a/b")
    assert files_below(artifact.uri) == []


KILLED = """
import asyncio, os, signal, sys
from ratchet_kit import policy_id
from ratchet_kit.allowed_sources import Places
from registry_service.adapters.artifacts import FsspecArtifactStore

policy_id.of_folder = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(FsspecArtifactStore(sys.argv[1], Places(["/"])).ingest(sys.argv[2], "a/b"))
"""


async def test_what_a_killed_service_had_copied_goes_with_the_artifact(
    root: str, model_folder: Any, tmp_path: Path, own_temporary_folder: Path
) -> None:
    """A model has gigabytes."""
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, root, str(model_folder()))
    assert await killed.wait() == -signal.SIGKILL
    left = [own_temporary_folder, tmp_path / "store"]
    assert [file.name for folder in left for file in folder.rglob("*.safetensors")] == ["model.safetensors"]
    await store_at(root).delete("a/b")
    assert [file for folder in left for file in folder.rglob("*") if file.is_file()] == []
