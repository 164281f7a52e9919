"""The artifact store, on a folder and on object stores (in memory, and S3)."""

import errno
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from ratchet_kit import policy_id
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted
from registry_service.adapters.artifacts import FsspecArtifactStore


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.integration)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        url: str = request.getfixturevalue("s3_url")
        return url
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid4().hex}"


def files_below(root: str) -> list[str]:
    fs, path = fsspec.url_to_fs(root, use_listings_cache=False)
    return sorted(fs.find(path))


async def test_an_artifact_is_a_copy_with_its_digests(root: str, model_folder: Any) -> None:
    source = model_folder()
    (source / "tokenizer").mkdir()
    (source / "tokenizer" / "vocab.json").write_text("{}")
    artifact = await FsspecArtifactStore(root).ingest(str(source), "starter/art_1")
    assert artifact.policy_id == policy_id.of_folder(source)
    assert artifact.size_bytes == sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    shutil.rmtree(source)
    assert [name.split("art_1/")[1] for name in files_below(artifact.uri)] == [
        "config.json",
        "model.safetensors",
        "tokenizer/vocab.json",
    ]
    assert files_below(root) == files_below(artifact.uri), "nothing else is left in the store"


async def test_the_digest_is_of_content_and_names(root: str, model_folder: Any) -> None:
    store, source = FsspecArtifactStore(root), model_folder()
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
    assert (await FsspecArtifactStore(root).ingest(str(links), "a/b")).policy_id == policy_id.of_folder(source)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no \*.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "cannot be read"),
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
        await FsspecArtifactStore(root).ingest(str(source), "starter/art_1")
    assert files_below(root) == []


async def test_a_missing_source_is_not_found(root: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        await FsspecArtifactStore(root).ingest(str(tmp_path / "nowhere"), "a/b")
    with pytest.raises(InvalidArgument, match="Protocol not known"):
        await FsspecArtifactStore(root).ingest("nonsense://x", "a/b")


async def test_a_full_disk_says_what_to_do(root: str, model_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = FsspecArtifactStore(root)
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(ResourceExhausted, match="ARTIFACT_URL"):
        await store.ingest(str(model_folder()), "a/b")
    assert files_below(root) == []


async def test_delete_removes_all_and_may_be_repeated(root: str, model_folder: Any) -> None:
    store = FsspecArtifactStore(root)
    artifact = await store.ingest(str(model_folder()), "a/b")
    await store.delete("a/b")
    await store.delete("a/b")
    assert files_below(artifact.uri) == []
