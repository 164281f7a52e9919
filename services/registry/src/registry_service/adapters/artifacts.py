"""ArtifactStore on fsspec: a local folder or an object store such as s3://bucket/prefix."""

import asyncio
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from registry_service.domain.version import Artifact

_CHUNK = 4 * 1024 * 1024
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class FsspecArtifactStore:
    """Keeps artifacts under `root`.

    An artifact is copied to a staging folder on this machine, read there, and only then moved to its place: by a rename
    where the store is a local folder, by an upload where it is not.
    """

    def __init__(self, root: str) -> None:
        try:
            self._fs, self._root = fsspec.url_to_fs(root)
        except (ImportError, ValueError) as error:
            raise InvalidArgument(f"ARTIFACT_URL={root} cannot be used: {error}") from error

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        return await asyncio.to_thread(self._ingest, source_uri, key)

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._delete, key)

    def _ingest(self, source_uri: str, key: str) -> Artifact:
        with self._errors(), self._staging(key) as staged:
            _copy(source_uri, staged)
            if not (staged / "config.json").is_file():
                raise InvalidArgument(f"{source_uri} holds no model: config.json is missing")
            try:
                weights = policy_id.of_folder(staged)
            except FileNotFoundError as error:
                raise InvalidArgument(f"{source_uri} holds no weights: there is no *.safetensors file") from error
            except (DataLoss, ValueError) as error:
                reason = str(error).replace(str(staged), source_uri)
                raise InvalidArgument(f"the weights in {source_uri} cannot be read: {reason}") from error
            files = sorted(path for path in staged.rglob("*") if path.is_file())
            artifact = Artifact(
                uri=self._path(key) if self._local else self._fs.unstrip_protocol(self._path(key)),
                sha256=_digest(staged, files),
                policy_id=weights,
                size_bytes=sum(path.stat().st_size for path in files),
            )
            self._publish(staged, key)
        return artifact

    def _publish(self, staged: Path, key: str) -> None:
        target = self._path(key)
        if self._local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            os.rename(staged, target)
        else:
            self._fs.put(f"{staged}/", f"{target}/", recursive=True)

    def _delete(self, key: str) -> None:
        with self._errors():
            if self._local:
                shutil.rmtree(self._staging_folder(key), ignore_errors=True)
            try:
                self._fs.rm(self._path(key), recursive=True)
            except FileNotFoundError:
                pass

    @contextmanager
    def _staging(self, key: str) -> Iterator[Path]:
        """A folder of this artifact's own, on the store's file system where that is local; gone at the end."""
        if not self._local:
            with tempfile.TemporaryDirectory(prefix="ratchet-artifact-") as temporary:
                yield Path(temporary)
            return
        folder = self._staging_folder(key)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _staging_folder(self, key: str) -> Path:
        return Path(self._root) / ".incoming" / key.replace("/", "-")

    @property
    def _local(self) -> bool:
        return isinstance(self._fs, LocalFileSystem)

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise ResourceExhausted(
                    f"the artifact store {self._root} is full ({os.strerror(error.errno)}): free some space, or point "
                    f"ARTIFACT_URL at a larger place, and send the request again"
                ) from error
            raise Unavailable(f"the artifact store {self._root} cannot be used: {error}") from error


def _copy(source_uri: str, folder: Path) -> None:
    """Copies the files below `source_uri` into `folder`, following links."""
    try:
        source, root = fsspec.url_to_fs(source_uri)
        if not source.isdir(root):
            raise NotFound(f"there is no folder {source_uri} that the registry can read")
        names = source.find(root)
    except (ImportError, ValueError) as error:
        raise InvalidArgument(f"source_uri {source_uri} cannot be used: {error}") from error
    for name in names:
        target = folder / name[len(root) :].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            reading = source.open(name, "rb")
        except PermissionError as error:
            raise InvalidArgument(f"the registry may not read {name}") from error
        with reading, target.open("wb") as writing:
            shutil.copyfileobj(reading, writing, _CHUNK)


def _digest(folder: Path, files: list[Path]) -> str:
    """sha256 (hex) over one line for each file, "sha256 name\\n", by name."""
    lines = hashlib.sha256()
    for path in files:
        with path.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        lines.update(f"{content} {path.relative_to(folder).as_posix()}\n".encode())
    return lines.hexdigest()
