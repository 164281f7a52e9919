"""Folders at a path or an fsspec URL, such as s3://bucket/prefix. All calls block: make them in a thread."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

import fsspec
from botocore.exceptions import BotoCoreError
from fsspec.implementations.local import LocalFileSystem

from ratchet_kit import files
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable

MAX_FILES = 10_000
"""In a folder that is listed or copied: a model has some hundred."""
_CHUNK_BYTES = 4 << 20
SPARE_BYTES = 256 << 20
"""What a copy leaves free on its disk."""

Require: TypeAlias = Callable[[Path, str], None]
"""Raises InvalidArgument for a path (resolved) that must not be read; the text is what a caller knows it by."""


@contextmanager
def errors(uri: str) -> Iterator[None]:
    """What goes wrong with the files of `uri`, as errors of ours; see `Folder`."""
    try:
        with disk_errors(uri):
            yield
    except BotoCoreError as error:
        raise Unavailable(f"{uri} cannot be reached: {error}") from error


class Folder:
    """A folder that may not exist yet.

    Its methods raise Unavailable when its storage cannot be reached, ResourceExhausted when a disk is full,
    FailedPrecondition when this service may not read or write there.
    """

    def __init__(self, uri: str, require: Require | None = None, max_bytes: int | None = None) -> None:
        """`require` and `max_bytes` are for a folder that a caller named: see `ratchet_kit.allowed_sources`.

        Raises InvalidArgument when no storage is known for the URL, or its package is not installed.
        """
        self._require = require
        self._max_bytes = max_bytes
        try:
            # Without a cache of listings: another service may have written there since.
            self._fs, path = fsspec.url_to_fs(os.path.expanduser(uri), use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise InvalidArgument(f"{uri} cannot be used: {error}") from error
        self._path: str = path.rstrip("/")
        self.local: Path | None = Path(self._path) if isinstance(self._fs, LocalFileSystem) else None
        """Its path when it is on this machine."""
        self.uri: str = self._path if self.local else self._fs.unstrip_protocol(self._path)
        """An absolute path, or a URL."""

    def child(self, name: str) -> "Folder":
        return Folder(f"{self.uri}/{name}", self._require, self._max_bytes)

    def sizes(self) -> dict[str, int]:
        """The bytes of all files below it, by their relative paths. Links are followed.

        Raises NotFound when there is none: an object store has no empty folders. InvalidArgument when a file would lie
        elsewhere, is none (a device), or there are too many, of too many bytes.
        """
        sizes: dict[str, int] = {}
        total = 0
        with errors(self.uri):
            for name, size in self._local_files() if self.local else self._remote_files():
                if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
                    raise InvalidArgument(f"{self.uri} holds a file that would be written elsewhere: {name}")
                sizes[name] = size
                total += size
                if len(sizes) > MAX_FILES:
                    raise InvalidArgument(f"{self.uri} holds more than {MAX_FILES} files: this is not a model")
                if self._max_bytes is not None and total > self._max_bytes:
                    raise InvalidArgument(f"{self.uri} holds more than {self._max_bytes} bytes, the most for a model")
        if not sizes:
            raise NotFound(f"there is no folder {self.uri}, or it is empty")
        return sizes

    def _local_files(self) -> Iterator[tuple[str, int]]:
        seen: set[str] = set()
        for folder, subfolders, names in os.walk(self._path, onerror=_denied, followlinks=True):
            real = os.path.realpath(folder)
            self._look(Path(real))
            if real in seen:  # a link back to it
                subfolders.clear()
                continue
            seen.add(real)
            for name in names:
                path = Path(folder, name)
                self._look(Path(os.path.realpath(path)))
                status = path.stat()
                if not stat.S_ISREG(status.st_mode):
                    raise InvalidArgument(f"{path} is not a file")
                yield path.relative_to(self._path).as_posix(), status.st_size

    def _remote_files(self) -> Iterator[tuple[str, int]]:
        for name, info in self._fs.find(self._path, detail=True).items():
            if name != self._path:
                yield name.removeprefix(f"{self._path}/"), info["size"]

    def _look(self, path: Path) -> None:
        if self._require is not None:
            self._require(path, self.uri)

    def names(self) -> list[str]:
        """The names of the files and folders in it; none where it does not exist."""
        with errors(self.uri):
            found = self._fs.ls(self._path, detail=False) if self._fs.exists(self._path) else []
            return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def read(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        """The content of a small file, or a part of any. Raises NotFound."""
        with errors(self.uri):
            if self.local:
                self._look(Path(os.path.realpath(self.local / name)))
            content: bytes = self._fs.cat_file(f"{self._path}/{name}", start=start, end=end)
            return content

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file whose parts are read where they are asked for. Raises NotFound."""
        with errors(self.uri):
            if self.local:
                self._look(Path(os.path.realpath(self.local / name)))
            with self._fs.open(f"{self._path}/{name}", "rb") as file:
                yield file

    def write(self, name: str, data: bytes) -> None:
        """Writes a small file, all of it or nothing."""
        with errors(self.uri):
            if self.local is None:
                self._fs.pipe_file(f"{self._path}/{name}", data)
                return
            with files.whole(self.local / name) as draft:
                draft.write_bytes(data)

    def put(self, name: str, source: Path) -> None:
        """Copies a file of this machine into it, all of it or nothing."""
        with errors(self.uri):
            if self.local is None:
                self._fs.put_file(str(source), f"{self._path}/{name}")
                return
            require_space(self.local, source.stat().st_size)
            with files.whole(self.local / name) as draft:
                shutil.copyfile(source, draft)

    def download(self, target: Path) -> None:
        """Copies its files into `target`, which may exist.

        Raises NotFound, what `sizes` raises, and ResourceExhausted before the first byte when the disk has not the
        space.
        """
        sizes = self.sizes()
        require_space(target, sum(sizes.values()))
        for name in sizes:
            file = target / name
            with errors(self.uri):
                file.parent.mkdir(parents=True, exist_ok=True)
                with self._fs.open(f"{self._path}/{name}", "rb") as reading, file.open("wb") as writing:
                    shutil.copyfileobj(reading, writing, _CHUNK_BYTES)

    def upload(self, source: Path) -> None:
        """Copies the files below `source` into it."""
        with errors(self.uri):
            self._fs.put(f"{source}/", f"{self._path}/", recursive=True)

    def delete(self) -> None:
        """Deletes it and all below it. Does nothing when it does not exist."""
        with errors(self.uri):
            if self._fs.exists(self._path):
                self._fs.rm(self._path, recursive=True)


def _denied(error: OSError) -> None:
    """A folder that is not there has no files; one that may not be read is no folder without files."""
    if isinstance(error, PermissionError):
        raise error


def free_bytes(folder: Path) -> int:
    """What the disk of a folder, which need not exist yet, has free."""
    there = next(known for known in (folder, *folder.absolute().parents) if known.exists())
    return shutil.disk_usage(there).free


def require_space(folder: Path, size: int) -> None:
    """Raises ResourceExhausted where `size` bytes, and some to spare, are not free for what is written to `folder`."""
    free = free_bytes(folder)
    missing = size + SPARE_BYTES - free
    if missing > 0:
        raise ResourceExhausted(
            f"no space is left in {folder}: {size} bytes are to be written, and {SPARE_BYTES} more to stay free; {free}"
            f" are, so {missing} are missing"
        )
