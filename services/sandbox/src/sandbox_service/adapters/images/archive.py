"""Images as files: what `docker save` and `podman save` write, and OCI's image layout, as a tar or a folder.

https://github.com/opencontainers/image-spec: image-layout.md, manifest.md, config.md.
"""

import contextlib
import gzip
import hashlib
import json
import os
import platform
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ratchet_kit import images

_JSON_BYTES, _MOST_LAYERS, _DEEPEST = 8 << 20, 500, 3
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Unreadable(Exception):
    """A file that holds no image that can be read; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Config:
    """`digests`: of its layers' content, from the lowest up."""

    environment: dict[str, str]
    workdir: str
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """An image of a file or folder. `names`: in full, with the digests that name it. `digest`: of its configuration,
    which names the content of its layers. `layers`: where these lie. `size`: their bytes as they lie there."""

    path: Path
    names: tuple[str, ...]
    digest: str
    config: Config
    layers: tuple[str, ...]
    size: int


def read(path: Path) -> list[Given]:
    """Raises Unreadable, OSError."""
    try:
        with _opened(path) as blobs:
            if blobs.has("manifest.json"):
                found = [_of_docker(path, blobs, one) for one in _list(blobs.json("manifest.json"))]
            elif blobs.has("index.json"):
                found = list(_of_index(path, blobs, _object(blobs.json("index.json")), (), _DEEPEST))
            else:
                raise Unreadable("has neither manifest.json (docker save) nor index.json (OCI layout)")
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError) as error:
        raise Unreadable(f"is no image: {error!r}") from error
    if not found:
        raise Unreadable("holds no image for this machine")
    return found


@contextlib.contextmanager
def contents(given: Given) -> Iterator[Iterator[IO[bytes]]]:
    """The layers' tars, from the lowest up, each to be read to its end. Raises Unreadable for content that differs from
    its digest."""
    with _opened(given.path) as blobs:
        yield (layer for name, digest in zip(given.layers, given.config.digests, strict=True)
               for layer in _content(blobs, name, digest))  # fmt: skip


def _content(blobs: "_Blobs", name: str, digest: str) -> Iterator[IO[bytes]]:
    with blobs.open(name) as file:
        first = file.read(4)
        file.seek(0)
        if first == _ZSTD:
            raise Unreadable("has layers compressed by zstd: save it with `docker save`, or gzip")
        hashed = _Hashed(gzip.GzipFile(fileobj=file) if first.startswith(_GZIP) else file)
        yield hashed  # type: ignore[misc]  # it has what tarfile reads a stream by
        while hashed.read(1 << 20):
            pass
        if digest != f"sha256:{hashed.sum.hexdigest()}":
            raise Unreadable(f"layer {name} is not what its configuration says: copy the image again")


class _Hashed:
    def __init__(self, file: Any) -> None:
        self._file, self.sum = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        self.sum.update(data)
        return data


class _Blobs:
    """Files of a folder, or of a tar."""

    def __init__(self, folder: Path | None, archive: tarfile.TarFile | None) -> None:
        self._folder, self._archive = folder, archive
        members = archive.getmembers() if archive else []
        self._members = {os.path.normpath(member.name): member for member in members}

    def has(self, name: str) -> bool:
        return name in self._members if self._archive else (self._of_folder() / name).is_file()

    def _of_folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    def open(self, name: str) -> IO[bytes]:
        """Raises Unreadable."""
        if name.startswith("/") or ".." in name.split("/"):
            raise Unreadable(f"names a file outside of it: {name[:100]!r}")
        if self._archive is None:
            return open(os.open(self._of_folder() / name, os.O_RDONLY | os.O_NOFOLLOW), "rb")
        member = self._members.get(os.path.normpath(name))
        file = self._archive.extractfile(member) if member else None
        if file is None:
            raise Unreadable(f"lacks {name[:100]!r}")
        return file

    def size(self, name: str) -> int:
        with self.open(name) as file:
            return file.seek(0, os.SEEK_END)

    def bytes(self, name: str) -> bytes:
        with self.open(name) as file:
            data = file.read(_JSON_BYTES + 1)
        if len(data) > _JSON_BYTES:
            raise Unreadable(f"{name[:100]!r} is too large")
        return data

    def json(self, name: str) -> Any:
        return json.loads(self.bytes(name))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Blobs]:
    if path.is_dir():
        yield _Blobs(path, None)
        return
    with open(path, "rb") as file:
        if file.read(2) == _GZIP:
            raise Unreadable("is compressed: gunzip it")
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:") as archive:
            yield _Blobs(None, archive)


def _of_docker(path: Path, blobs: _Blobs, entry: dict[str, Any]) -> Given:
    names = [name for name in entry.get("RepoTags") or [] if isinstance(name, str)]
    return _given(path, blobs, names, entry["Config"], entry["Layers"], ())


def _of_index(
    path: Path, blobs: _Blobs, index: dict[str, Any], names: tuple[str, ...], deepest: int
) -> Iterator[Given]:
    for one in _list(index["manifests"]):
        notes = one.get("annotations") or {}
        own = names + tuple(notes[key] for key in _NAMES if isinstance(notes.get(key), str))
        digest, machine = str(one["digest"]), one.get("platform") or {}
        if (machine.get("architecture") or _machine()) != _machine():
            continue
        document = _object(blobs.json(_blob(digest)))
        if "manifests" in document and deepest:
            yield from _of_index(path, blobs, document, own, deepest - 1)
        elif "config" in document:
            layers = [_blob(layer["digest"]) for layer in _list(document["layers"])]
            yield _given(path, blobs, own, _blob(document["config"]["digest"]), layers, (digest,))


def _given(path: Path, blobs: _Blobs, names: Any, config: str, layers: list[str], digests: tuple[str, ...]) -> Given:
    data = blobs.bytes(config)
    read, digest = _config(json.loads(data)), f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not 0 < len(layers) <= _MOST_LAYERS or len(layers) != len(read.digests):
        raise Unreadable(f"has {len(layers)} layers, and its configuration {len(read.digests)}")
    usable = tuple(dict.fromkeys(_usable(path, names) or [_usual(path)]))
    size = sum(blobs.size(layer) for layer in layers)
    return Given(path, (*usable, digest, *digests), digest, read, tuple(layers), size)


def _config(document: dict[str, Any]) -> Config:
    if document.get("os", "linux") != "linux" or document.get("architecture", _machine()) != _machine():
        raise Unreadable(f"is for {document.get('os')}/{document.get('architecture')}: this node is linux/{_machine()}")
    own = document.get("config") or {}
    words = [word for word in own.get("Env") or [] if isinstance(word, str) and "=" in word and "\0" not in word]
    workdir = os.path.normpath(f"/{own.get('WorkingDir') or ''}").lstrip("/")
    return Config(dict(word.split("=", 1) for word in words), workdir, tuple(document["rootfs"]["diff_ids"]))


def _usable(path: Path, names: Any) -> list[str]:
    found = []
    for name in names:
        with contextlib.suppress(ValueError):
            found.append(images.normal(name) if "/" in name or ":" in name else _usual(path, f":{name}"))
    return found


def _usual(path: Path, tag: str = "") -> str:
    """For an image without a name of its own: that of its file."""
    stem = path.name.removesuffix(".tar").lower()
    try:
        return images.normal(f"{stem}{tag}")
    except ValueError as error:
        raise Unreadable(f"has no name, and {error}: save it by its name, or rename the file") from error


def _blob(digest: str) -> str:
    kind, _, value = digest.partition(":")
    if kind != "sha256" or len(value) != 64 or not value.isalnum():
        raise Unreadable(f"has a digest that is not sha256: {digest[:100]!r}")
    return f"blobs/sha256/{value}"


def _machine() -> str:
    return _MACHINES.get(platform.machine(), platform.machine())


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable("has no list where its form has one")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("has no object where its form has one")
    return value
