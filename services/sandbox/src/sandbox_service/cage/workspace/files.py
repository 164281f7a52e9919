"""Files in and out of a workspace, as tar streams, by a process that is confined as its programs are.

No link is followed, in or out: what a program left there decides neither where a file goes nor what is read.
"""

import contextlib
import os
import stat
import tarfile
from collections.abc import Iterator

from sandbox_service.cage.wire import wire

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_CHUNK = 1 << 18
_MOST_ENTRIES = 100_000


def write(frames: wire.Frames, folder: str) -> int:
    """Unpacks a tar from standard input below `folder`, which is made where it isn't there.

    Raises OSError, ValueError for a tar that can't be read or a name that leads out.
    """
    try:
        with tarfile.open(fileobj=open(0, "rb", 1 << 16, closefd=False), mode="r|") as archive:
            for entry in archive:
                _put(archive, entry, _parts(f"{folder}/{entry.name}"))
    except tarfile.TarError as error:
        raise ValueError(f"no tar that can be read: {error}") from None
    return 0


def read(frames: wire.Frames, names: tuple[str, ...], most: int) -> int:
    """Packs what has these names, folders with all that is in them, into a tar on standard output.

    Raises OSError, ValueError for a name that leads out, or files of more than `most` bytes.
    """
    with (
        open(1, "wb", 1 << 16, closefd=False) as output,
        tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in names:
            for path, descriptor, status in _named(_parts(name)):
                most -= status.st_size if stat.S_ISREG(status.st_mode) else 0
                if most < 0:
                    raise ValueError("more bytes than may be read at once: read fewer files")
                _pack(archive, path, descriptor, status)
    return 0


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise ValueError(f"{name[:200]!r} leads out of the workspace")
    return parts


@contextlib.contextmanager
def _folder(parts: list[str], make: bool) -> Iterator[int]:
    """A descriptor of the folder of that path. Raises NotADirectoryError where a part of it is a link or a file."""
    descriptor = os.open(".", _FOLDER)
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


def _put(archive: tarfile.TarFile, entry: tarfile.TarInfo, parts: list[str]) -> None:
    if entry.isdir() or not parts:
        with _folder(parts, make=True):
            return
    *parents, last = parts
    with _folder(parents, make=True) as folder:
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
    waiting, left = ["/".join(parts)], _MOST_ENTRIES
    while waiting:
        path = waiting.pop()
        left -= 1
        if left < 0:
            raise ValueError(f"more than {_MOST_ENTRIES} entries")
        *parents, last = path.split("/")
        with _folder([part for part in parents if part], make=False) as folder:
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
            archive.addfile(entry, content)
    # sockets, pipes and the like are left out
