"""Files of a folder that a stranger made, read once and within bounds."""

import os
import stat
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from ratchet_kit.errors import invalid

MOST_FILES = 2_000
MOST_BYTES = 64 << 20
_DEEPEST, _LONGEST = 32, 200
_MOST_PARENTS = 100
"""Parents of a file in a stranger's tar: the more there are, the longer all takes that is done with its path."""


@dataclass(frozen=True, slots=True)
class File:
    """`link`: where a symbolic link leads; it has no content then."""

    content: bytes = b""
    mode: int = 0o644
    link: str = ""


Tree = Mapping[str, File]
"""Files by their path in the workspace: "app/main.py"."""


def read_tree(root: Path, shown: str, but: Collection[str] = ()) -> dict[str, File]:
    """The files below `root` by their path there, without those entries of it; none where it is not there. `shown`
    stands before a path in errors. Raises InvalidArgument, which names the file, for a link, a device, a name with
    control characters, and beyond the bounds."""
    found: dict[str, File] = {}
    size = 0
    waiting = [("", 0)] if root.is_dir() and not root.is_symlink() else []
    while waiting:
        folder, depth = waiting.pop()
        _check_place(folder, depth, shown)
        for entry in sorted(os.scandir(root / folder), key=lambda entry: entry.name):
            path = f"{folder}{entry.name}"
            if path in but:
                continue
            _check_name(entry.name, f"{shown}{path}")
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{path}/", depth + 1))
                continue
            found[path] = read_file(root / path, f"{shown}{path}", MOST_BYTES - size)
            size += len(found[path].content)
            _check_number(len(found), shown)
    return found


def bounded(files: Tree, shown: str) -> None:
    """Raises InvalidArgument for files in memory that `read_tree` would not have read."""
    _check_number(len(files), shown)
    left = MOST_BYTES
    for path, file in files.items():
        parts = path.split("/")
        for name in parts:
            _check_name(name, f"{shown}{path}")
        _check_place(f"{'/'.join(parts[:-1])}/", len(parts) - 1, shown)
        left -= len(file.content)
        if file.link or left < 0:
            raise invalid(f"{shown}{path}", "is a link" if file.link else "is too large")


def _check_place(folder: str, depth: int, shown: str) -> None:
    if depth > _DEEPEST:
        raise invalid(f"{shown}{folder}", f"is deeper than {_DEEPEST} folders: put it higher")


def _check_number(files: int, shown: str) -> None:
    if files > MOST_FILES:
        raise invalid(shown.rstrip("/") or ".", f"has more than {MOST_FILES} files: pack what is not read by itself")


def read_file(path: Path, shown: str, most: int) -> File:
    """Raises InvalidArgument for what is no file, or has more than `most` bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise invalid(shown, "is a link: put the file itself there") from error
        raise invalid(shown, f"can't be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise invalid(shown, "is no file")
        content = file.read(most + 1)
    if len(content) > most:
        raise invalid(shown, f"is too large: {most} bytes are left of what a task folder may have")
    return File(content, 0o755 if status.st_mode & 0o111 else 0o644)


def _check_name(name: str, shown: str) -> None:
    if len(name) > _LONGEST or not name.isprintable() or "\\" in name:
        raise invalid(ascii(shown), f"has a name that is longer than {_LONGEST} letters or has control characters")


def packed_now(files: Tree, folders: Iterable[str] = ()) -> bytes:
    """As `packed`, for a workspace: all as new as what is copied, and what is packed together of one age. A zip can't
    hold files of 1970, and a build makes nothing anew of them."""
    return packed(files, folders, int(time.time()))


def packed(files: Tree, folders: Iterable[str] = (), seconds: int = 0) -> bytes:
    """A tar of files, with folders that have to be there. `seconds`: the time of them all."""
    into = BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, seconds
            archive.addfile(entry)
        for path, file in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size, entry.mtime = file.mode, len(file.content), seconds
            if file.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            archive.addfile(entry, BytesIO(file.content))
    return into.getvalue()


def unpacked(tar: bytes, shown: str, most: int = 2 * MOST_BYTES) -> tuple[dict[str, File], list[str]]:
    """Files, and folders, of a stranger's tar: what is neither, or has a name that leads out, is left out. Raises
    InvalidArgument beyond the bounds."""
    files: dict[str, File] = {}
    folders: list[str] = []
    left = most
    try:
        with tarfile.open(fileobj=BytesIO(tar), mode="r:") as archive:
            for entry in archive:
                parts = [part for part in entry.name.split("/") if part not in ("", ".")]
                path = "/".join(parts)
                if not parts or ".." in parts or "\0" in path:
                    continue
                if len(parts) > _MOST_PARENTS:
                    raise invalid(shown, f"lie deeper than {_MOST_PARENTS} folders")
                if len(files) > 10 * MOST_FILES or len(folders) > 10 * MOST_FILES:
                    raise invalid(shown, f"has more than {10 * MOST_FILES} files or folders")
                if entry.isdir():
                    folders.append(path)
                elif entry.issym():
                    files[path] = File(link=entry.linkname)
                elif entry.isreg():
                    left -= entry.size
                    if left < 0:
                        raise invalid(shown, f"has more than {most} bytes")
                    content = archive.extractfile(entry)
                    files[path] = File(content.read() if content else b"", 0o755 if entry.mode & 0o111 else 0o644)
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise invalid(shown, f"is no tar that can be read: {error}") from error
    return files, folders
