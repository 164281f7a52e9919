"""Files in and out of a workspace, as tar streams, by a process that is confined as its programs are.

No link is followed, in or out: what a program left there decides neither where a file goes nor what is read.
"""

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from sandbox_service.cage.wire import wire

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_CHUNK = 1 << 18
MOST_ENTRIES = 100_000
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
REMOVED = ".wh."
"""Before a name in a layer: what was removed there."""


def write(frames: wire.Frames, folder: str, is_layer: bool = False) -> int:
    """Unpacks a tar from standard input below `folder`, which is made where it isn't there. `is_layer`: it also names
    what is to be removed.

    Raises OSError, ValueError for a tar that can't be read or a name that leads out.
    """
    try:
        with tarfile.open(fileobj=open(0, "rb", 1 << 16, closefd=False), mode="r|") as archive:
            for entry in archive:
                path = parts(f"{folder}/{entry.name}")
                if is_layer and path and path[-1].startswith(REMOVED):
                    _remove([*path[:-1], path[-1].removeprefix(REMOVED)])
                else:
                    _put(archive, entry, path)
    except tarfile.TarError as error:
        raise ValueError(f"no tar that can be read: {error}") from None
    return 0


def read(frames: wire.Frames, names: tuple[str, ...], most: int) -> int:
    """Packs what has these names, folders with all that is in them, into a tar on standard output. What is in a folder
    and can't be read, or goes meanwhile, is left out: a program that runs on may write there.

    Raises OSError, ValueError for a name that leads out, or files of more than `most` bytes.
    """
    with Packer(most) as packer:
        for name in names:
            root = parts(name)
            for path, descriptor, status in _named(root):
                with left_out(path, "/".join(root)):
                    packer.put(path, descriptor, status)
    return 0


@contextlib.contextmanager
def left_out(path: str, root: str) -> Iterator[None]:
    """Passes over what isn't there any more, or can't be read, unless it is `root` itself."""
    try:
        yield
    except OSError as error:
        if path == root or error.errno not in _GONE:
            raise


class Packer:
    """A tar on standard output, of files of `most` bytes in all."""

    def __init__(self, most: int) -> None:
        self._left = most

    def __enter__(self) -> "Packer":
        self._output = open(1, "wb", 1 << 16, closefd=False)
        self._archive = tarfile.open(fileobj=self._output, mode="w|", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._archive.close()
            self._output.close()

    def add(self, path: str) -> None:
        """Raises ValueError beyond the bytes, OSError."""
        *parents, last = path.split("/")
        with opened(parents) as folder:
            self.put(path, folder, os.stat(last, dir_fd=folder, follow_symlinks=False))

    def add_removed(self, path: str) -> None:
        folder, _, last = path.rpartition("/")
        self._archive.addfile(tarfile.TarInfo(f"{folder}/{REMOVED}{last}".lstrip("/")))

    def put(self, path: str, folder: int, status: os.stat_result) -> None:
        """`folder`: a descriptor of that which it is in."""
        self._left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
        if self._left < 0:
            raise ValueError("more bytes than may be read at once: read fewer files")
        _pack(self._archive, path, folder, status)


def parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise ValueError(f"{name[:200]!r} leads out of the workspace")
    return parts


@contextlib.contextmanager
def opened(parts: list[str], make: bool = False, base: str = ".") -> Iterator[int]:
    """A descriptor of the folder of that path. Raises NotADirectoryError where a part of it is a link or a file."""
    descriptor = os.open(base, _FOLDER)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=descriptor)
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _remove(path: list[str]) -> None:
    """Leaves alone what is not there, and a folder that something is in."""
    *parents, last = path
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), opened(parents) as folder:
        if last in ("", ".", ".."):
            raise ValueError("a name to be removed is none")
        try:
            os.unlink(last, dir_fd=folder)
        except IsADirectoryError:
            with contextlib.suppress(OSError):
                os.rmdir(last, dir_fd=folder)


def _put(archive: tarfile.TarFile, entry: tarfile.TarInfo, parts: list[str]) -> None:
    if entry.isdir() or not parts:
        with opened(parts, make=True):
            return
    *parents, last = parts
    with opened(parents, make=True) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)  # never through a link that was there
        if entry.issym():
            os.symlink(entry.linkname, last, dir_fd=folder)
            return
        if not entry.isfile():
            raise ValueError(f"{entry.name[:200]!r} is neither a file, a folder nor a symbolic link")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(last, flags, (entry.mode & 0o777) | 0o600, dir_fd=folder)
        try:
            content = archive.extractfile(entry)
            while content and (chunk := content.read(_CHUNK)):
                wire.write_all(descriptor, chunk)
            with contextlib.suppress(OSError):  # without a root of its own nobody may
                os.utime(descriptor, (entry.mtime, entry.mtime))
        finally:
            os.close(descriptor)


def _named(parts: list[str]) -> Iterator[tuple[str, int, os.stat_result]]:
    """Finds what has the name and, of a folder, all below it: path, descriptor of the folder that it is in, status."""
    root = "/".join(parts)
    waiting, left = [root], MOST_ENTRIES
    while waiting:
        path = waiting.pop()
        left -= 1
        if left < 0:
            raise ValueError(f"more than {MOST_ENTRIES} entries")
        *parents, last = path.split("/")
        with left_out(path, root), opened([part for part in parents if part], make=False) as folder:
            status = os.stat(last or ".", dir_fd=folder, follow_symlinks=False)
            if path:
                yield path, folder, status
            if stat.S_ISDIR(status.st_mode):
                inner = os.open(last or ".", _FOLDER, dir_fd=folder)
                try:
                    entries = sorted(os.listdir(inner), reverse=True)
                finally:
                    os.close(inner)
                waiting += [f"{path}/{entry}" if path else entry for entry in entries]


class _Padded:
    """A file that may shrink while it is read: its tar has said its size already."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content

    def read(self, size: int = 0) -> bytes:
        data = self._content.read(size)
        return data + bytes(size - len(data))


def _pack(archive: tarfile.TarFile, path: str, folder: int, status: os.stat_result) -> None:
    entry = tarfile.TarInfo(path)
    entry.mode, entry.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    last = path.rpartition("/")[2]
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(last, dir_fd=folder)
        archive.addfile(entry)
    elif stat.S_ISREG(status.st_mode):
        descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with open(descriptor, "rb") as content:
            entry.size = min(status.st_size, os.fstat(descriptor).st_size)
            archive.addfile(entry, _Padded(content))
    # sockets, pipes and the like are left out
