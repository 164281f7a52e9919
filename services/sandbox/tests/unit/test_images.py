"""Images as files: what is read of them, what their layers come to, and which are refused."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit import images as names
from ratchet_kit.errors import FailedPrecondition, ResourceExhausted
from ratchet_testing import images
from ratchet_testing.images import entry, layer
from sandbox_service.adapters.images import archive, store, unpack
from sandbox_service.adapters.images.archive import Unreadable


def unpacked(tmp_path: Path, *layers: list[tuple[tarfile.TarInfo, bytes]], **more: Any) -> Path:
    saved = images.save(tmp_path / "image.tar", "team/app:1", [layer(one) for one in layers], **more)
    (given,) = archive.read(saved)
    folder = tmp_path / "root"
    folder.mkdir()
    unpack.unpack(given, folder)
    return folder


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=to)


def folder_entry(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=mode, type=tarfile.DIRTYPE)


def test_what_docker_saves(tmp_path: Path) -> None:
    layers = [layer([entry("a", b"x")])]
    saved = images.save(tmp_path / "x.tar", "docker.io/team/app:1", layers, {"A": "b=c"}, "/testbed/")
    (given,) = archive.read(saved)
    assert given.names == ("team/app:1", given.digest)
    assert (given.config.environment, given.config.workdir) == ({"A": "b=c"}, "testbed")


def _layout(folder: Path, config: bytes, content: bytes, notes: dict[str, str]) -> str:
    """OCI's layout with an index in an index. Returns the digest of the manifest."""
    (folder / "blobs/sha256").mkdir(parents=True)

    def put(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return f"sha256:{digest}"

    manifest = put(json.dumps({"config": {"digest": put(config)}, "layers": [{"digest": put(content)}]}).encode())
    other = {"digest": put(b"{}"), "platform": {"architecture": "s390x", "os": "linux"}}
    inner = put(json.dumps({"manifests": [other, {"digest": manifest}]}).encode())
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": inner, "annotations": notes}]}))
    return manifest


@pytest.mark.parametrize(
    ("notes", "name"),
    [
        ({"org.opencontainers.image.ref.name": "latest"}, "my-image:latest"),
        ({"org.opencontainers.image.ref.name": "localhost/team/app:2"}, "team/app:2"),
        ({}, "my-image:latest"),
    ],
)
def test_a_layout_of_oci(tmp_path: Path, notes: dict[str, str], name: str) -> None:
    content = layer([entry("a", b"x")])
    config = {"os": "linux", "rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]}}
    folder = tmp_path / "my-image"
    manifest = _layout(folder, json.dumps(config).encode(), gzip.compress(content), notes)
    (given,) = archive.read(folder)
    assert given.names == (name, given.digest, manifest)
    (tmp_path / "root").mkdir()
    unpack.unpack(given, tmp_path / "root")
    assert (tmp_path / "root/a").read_bytes() == b"x"


def test_later_layers_cover_and_remove(tmp_path: Path) -> None:
    root = unpacked(
        tmp_path,
        [
            entry("d/gone", b"1"), entry("d/kept", b"1"), entry("o/old", b"1"), entry("o/sub/old", b"1"),
            entry("file", b"1"), folder_entry("folder"), entry("folder/x", b"1"), link("l", "d"), entry("w/a", b"1"),
        ],
        [
            entry("d/.wh.gone"), entry("o/new", b"2"), entry("o/.wh..wh..opq"), entry("file/in", b"2"),
            entry("folder", b"2"), entry("l/through", b"2"), entry("w/a", b"2"), entry("w/.wh.a"),
            entry(".wh..wh.plnk/x", b"2"),
        ],
    )  # fmt: skip
    seen = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    etc = {name: seen.pop(name) for name in list(seen) if name.startswith("etc/")}
    assert seen == {
        "d/kept": b"1", "o/new": b"2", "file/in": b"2", "folder": b"2", "d/through": b"2", "w/a": b"2",
    }  # fmt: skip
    assert b"localhost" in etc["etc/hosts"]
    assert b":1000:" in etc["etc/passwd"]


def test_modes_and_links(tmp_path: Path) -> None:
    root = unpacked(
        tmp_path,
        [
            entry("su", b"x", 0o4755), entry("closed", b"x", 0), folder_entry("dir", 0o1000), entry("a", b"x", 0o711),
            link("b", "a", tarfile.LNKTYPE), link("out", "/etc/shadow"), entry("dev/null", type=tarfile.CHRTYPE),
            entry("pipe", type=tarfile.FIFOTYPE), link("proc", "/tmp"), entry("etc/hosts", b"mine"),
        ],
        workdir="/made/for/it",
    )  # fmt: skip
    modes = {name: (root / name).stat().st_mode & 0o7777 for name in ("su", "closed", "dir", "a")}
    assert modes == {"su": 0o755, "closed": 0o600, "dir": 0o700, "a": 0o711}
    assert (root / "a").samefile(root / "b")
    assert os.readlink(root / "out") == "/etc/shadow"
    assert not (root / "dev/null").exists()
    assert not os.path.lexists(root / "pipe")
    assert not (root / "proc").is_symlink()
    assert (root / "made/for/it").is_dir()
    assert (root / "etc/hosts").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../out", b"x")],
        [entry("a/../../out", b"x")],
        [link("b", "../../etc/passwd", tarfile.LNKTYPE)],
        [link("b", "none", tarfile.LNKTYPE)],
        [link("s", "/etc"), link("b", "s/passwd", tarfile.LNKTYPE)],
        [folder_entry("d"), link("b", "d", tarfile.LNKTYPE)],
        [entry("sda", type=tarfile.BLKTYPE)],
        [entry("device", type=tarfile.CHRTYPE)],
        [link("l", "l"), entry("l/x", b"x")],
        [entry("d/.wh.")],
        [entry("d/.wh...")],
        [entry("x" * 5000, b"x")],
    ],
)
def test_a_hostile_layer_is_refused(tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with pytest.raises(Unreadable):
        unpacked(tmp_path, entries)
    assert not (tmp_path / "out").exists()


def test_links_lead_nowhere_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    ups = "../" * 20
    root = unpacked(
        tmp_path,
        [link("abs", str(outside)), link("rel", f"{ups}{str(outside).lstrip('/')}"), link("file", str(outside / "f"))],
        [entry("abs/x", b"x"), entry("rel/y", b"x"), entry("file", b"x"), entry("abs/.wh.z")],
    )
    assert not list(outside.iterdir())
    inside = root / str(outside).lstrip("/")
    assert {path.name for path in inside.iterdir()} == {"x", "y"}
    assert (root / "file").read_bytes() == b"x"


def test_more_than_an_image_may_have(tmp_path: Path) -> None:
    for bounds in ({"most_bytes": 10}, {"most_entries": 1}):
        tree = unpack.Tree(tmp_path, **bounds)
        with pytest.raises(Unreadable, match="more files or bytes"):
            tree.add(io.BytesIO(layer([entry("a", b"x" * 8), entry("b", b"x" * 8)])))
        tree.close()


async def test_a_call_does_not_wait_for_all_of_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes later has it, or is told what was wrong with it."""
    images.save(tmp_path / "a.tar", "a:1", [layer([entry("a", b"x")])])
    images.save(tmp_path / "b.tar", "b:1", [layer([entry("../b", b"x")])])
    node = store.Images(tmp_path)
    for name in ("a:1", "b:1"):
        monkeypatch.setattr(store, "_PATIENCE", 0.001)
        with pytest.raises(ResourceExhausted, match="is being unpacked") as refused:
            await node.use(name)
        assert refused.value.retry_after
        monkeypatch.setattr(store, "_PATIENCE", 60)
        if name == "a:1":
            one = await node.use(name)
            assert (Path(one.folder) / "a").read_bytes() == b"x"
            one.release()
        else:
            with pytest.raises(FailedPrecondition, match="leads out"):
                await node.use(name)
    assert len(list((tmp_path / ".unpacked").iterdir())) == 1
    await node.stop()


async def test_a_folder_that_is_read_only_is_unpacked_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, caches = tmp_path / "given", tmp_path / "caches"
    for folder in (given, caches):
        folder.mkdir()
    images.save(given / "a.tar", "a:1", [layer([entry("a", b"x")])])
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(given))
    node = store.Images(given)
    one = await node.use("a:1")
    assert Path(one.folder).is_relative_to(caches)
    assert (Path(one.folder) / "a").read_bytes() == b"x"
    one.release()
    saved = (given / "a.tar").read_bytes()
    (given / "a.tar").unlink()
    node.tidy()
    (cache,) = caches.iterdir()
    assert list(cache.iterdir()) == []
    cache.rmdir()
    (given / "a.tar").write_bytes(saved)
    (digest,) = (one.digest.removeprefix("sha256:") for one in archive.read(given / "a.tar"))
    planted = tmp_path / "another's"
    cache.symlink_to(planted)
    for place in ("", f"{os.geteuid()}-{digest}/root", f"{os.geteuid()}-old"):  # also as if it were unpacked
        (planted / place).mkdir(parents=True, exist_ok=True)
        with pytest.raises(FailedPrecondition, match="somebody else has made that folder"):
            await node.use("a:1")
        node.tidy()
    assert len(list(planted.iterdir())) == 2, "it is left alone"
    await node.stop()


def test_a_cache_that_is_no_whole_path_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for cache in ("caches", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        assert store.Images(tmp_path)._below.is_absolute()


async def test_services_that_share_a_folder_unpack_side_by_side(tmp_path: Path) -> None:
    """As in containers, where each is the process of the same number."""
    content = [entry(f"{number}", b"x" * 1000) for number in range(2000)]
    images.save(tmp_path / "a.tar", "a:1", [layer(content)])
    nodes = [store.Images(tmp_path) for _ in range(3)]
    ones = await asyncio.gather(*(node.use("a:1") for node in nodes))
    for one in ones:
        assert sum(name.isdigit() for name in os.listdir(one.folder)) == len(content)
        one.release()
    for node in nodes:
        await node.stop()
    assert len(list((tmp_path / ".unpacked").iterdir())) == 1


def test_a_file_is_read_again_once_others_may_read_it(tmp_path: Path) -> None:
    saved = images.save(tmp_path / "x.tar", "a:1", [layer([entry("a", b"x")])])
    saved.chmod(0o600)
    before = store._state(saved)
    saved.chmod(0o644)
    assert store._state(saved) != before


def test_content_is_what_the_configuration_says(tmp_path: Path) -> None:
    saved = images.save(tmp_path / "x.tar", "a:1", [layer([entry("a", b"right")])])
    saved.write_bytes(saved.read_bytes().replace(b"right", b"wrong"))
    (given,) = archive.read(saved)
    (tmp_path / "root").mkdir()
    with pytest.raises(Unreadable, match="not what its configuration says"):
        unpack.unpack(given, tmp_path / "root")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(b"x", mtime=0), "gunzip"),
        (b"nothing", "no image"),
        (layer([entry("a", b"x")]), "neither manifest.json"),
        (layer([entry("manifest.json", b"[]")]), "no image for this machine"),
        (layer([entry("manifest.json", b'[{"Config": "/etc/passwd", "Layers": []}]')]), "outside"),
        (layer([entry("manifest.json", b'[{"Config": "../x", "Layers": []}]')]), "outside"),
        (layer([entry("manifest.json", b'[{"Config": "c", "Layers": []}]')]), "lacks"),
        (layer([entry("manifest.json", b"[" * 5000)]), "no image"),
        (layer([entry("index.json", b'{"manifests": [{"digest": "sha256:../../x"}]}')]), "not sha256"),
    ],
)
def test_what_is_no_image_says_so(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(Unreadable, match=words):
        archive.read(tmp_path / "x.tar")


def test_another_machines_image_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    _layout(folder, b'{"os": "linux", "architecture": "s390x", "rootfs": {"diff_ids": []}}', b"", {})
    with pytest.raises(Unreadable, match="s390x"):
        archive.read(folder)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("python", "python:latest"),
        ("docker.io/library/python:3", "python:3"),
        ("localhost/app:1", "app:1"),
        ("host:5000/team/app", "host:5000/team/app:latest"),
        (f"app@sha256:{'a' * 64}", f"app@sha256:{'a' * 64}"),
    ],
)
def test_names_in_full(name: str, full: str) -> None:
    assert names.normal(name) == full
    assert names.is_image(full)


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a:$V", "a\n"])
def test_names_of_no_image(name: str) -> None:
    with pytest.raises(ValueError, match="no name of an image"):
        names.normal(name)
