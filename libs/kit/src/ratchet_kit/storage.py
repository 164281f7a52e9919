"""Folders at a path or an fsspec URL, such as s3://bucket/prefix. All calls block: make them in a thread."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
from botocore.exceptions import BotoCoreError
from fsspec.implementations.local import LocalFileSystem

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted, Unavailable

_CHUNK_BYTES = 4 << 20


@contextmanager
def errors(uri: str) -> Iterator[None]:
    """What goes wrong with the files of `uri`, as errors of ours; see `Folder`."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{uri}: {error.filename or error} does not exist") from error
    except PermissionError as error:
        raise FailedPrecondition(f"this service has no access to {uri}: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceExhausted(f"no space is left for the files of {uri}") from error
        raise Unavailable(f"{uri} cannot be reached: {error}") from error
    except BotoCoreError as error:
        raise Unavailable(f"{uri} cannot be reached: {error}") from error


class Folder:
    """A folder that may not exist yet.

    Its methods raise Unavailable when its storage cannot be reached, ResourceExhausted when a disk is full,
    FailedPrecondition when this service may not read or write there.
    """

    def __init__(self, uri: str) -> None:
        """Raises InvalidArgument when no storage is known for the URL, or its package is not installed."""
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
        return Folder(f"{self.uri}/{name}")

    def sizes(self) -> dict[str, int]:
        """The bytes of all files below it, by their relative paths. Links are followed.

        Raises NotFound when there is none: an object store has no empty folders.
        """
        with errors(self.uri):
            found = self._fs.find(self._path, detail=True)
        sizes = {name[len(self._path) + 1 :]: info["size"] for name, info in found.items() if name != self._path}
        if not sizes:
            raise NotFound(f"there is no folder {self.uri}, or it is empty")
        return sizes

    def read(self, name: str) -> bytes:
        """The content of a small file. Raises NotFound."""
        with errors(self.uri):
            content: bytes = self._fs.cat_file(f"{self._path}/{name}")
            return content

    def download(self, target: Path) -> None:
        """Copies its files into `target`, which may exist. Raises NotFound, InvalidArgument for a name with ".."."""
        for name in self.sizes():
            file = target / name
            if ".." in Path(name).parts:
                raise InvalidArgument(f"{self.uri} holds a file that would be written elsewhere: {name}")
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
