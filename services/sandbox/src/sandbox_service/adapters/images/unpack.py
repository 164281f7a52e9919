"""Unpacks an image's layers into one folder: `python -m sandbox_service.adapters.images.unpack FILE DIGEST FOLDER`.

A stranger made the layers. Every file is reached by descriptors of folders, through no link but those that lead within
the folder; names with "..", devices, and content that differs from its digest are refused. What an image can't bring
into a cage is left out: owners, setuid bits, extended attributes, devices below /dev.
"""

import contextlib
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sandbox_service.adapters.images import archive
from sandbox_service.adapters.images.archive import Unreadable

MOST_BYTES, MOST_ENTRIES = 64 << 30, 4_000_000
_WHITEOUT, _OPAQUE, _OTHERS = ".wh.", ".wh..wh..opq", ".wh..wh."
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LINKS, _LONGEST, _CHUNK = 40, 4096, 1 << 20
_HOSTS = b"127.0.0.1\tlocalhost\n"
_USER, _GROUP = b"sandbox:x:1000:1000::/root:/bin/sh\n", b"sandbox:x:1000:\n"


class Tree:
    """The folder as it grows, layer by layer."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        self._root = os.open(folder, _FOLDER)
        self._bytes, self._entries = most_bytes, most_entries
        self._new: set[str] = set()
        """Paths of the layer that is unpacked now: what it removes are those of the layers below."""

    def close(self) -> None:
        os.close(self._root)

    def add(self, layer: IO[bytes]) -> None:
        """Raises Unreadable, OSError, tarfile.TarError."""
        self._new = set()
        with tarfile.open(fileobj=layer, mode="r|") as entries:
            for entry in entries:
                self._entries -= 1
                self._bytes -= entry.size if entry.isreg() else 0
                if self._entries < 0 or self._bytes < 0:
                    raise Unreadable("has more files or bytes than an image may have here")
                self._put(entries, entry)

    def _put(self, entries: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        parts = _parts(entry.name)
        if not parts or any(part.startswith(_OTHERS) and part != _OPAQUE for part in parts):
            return  # notes of a storage driver
        *parents, name = parts
        with self._folder(parents) as (folder, path):
            if name == _OPAQUE:
                self._empty(folder, path)
            elif name.startswith(_WHITEOUT):
                self._remove(folder, path, name.removeprefix(_WHITEOUT))
            else:
                self._make(entries, entry, folder, path, name)

    def _make(self, entries: tarfile.TarFile, entry: tarfile.TarInfo, folder: int, path: str, name: str) -> None:
        if entry.ischr() or entry.isblk() or entry.isfifo():
            if not entry.isfifo() and not path.startswith("dev/"):
                raise Unreadable(f"has a device outside of /dev: {entry.name[:200]!r}")
            return
        self._new.add(f"{path}{name}")
        there = _mode(folder, name)
        if entry.isdir():
            if not stat.S_ISDIR(there):
                _delete(folder, name)
                os.mkdir(name, dir_fd=folder)
            os.chmod(name, (entry.mode & 0o777) | 0o700, dir_fd=folder)
            return
        if entry.islnk():
            *parents, last = _parts(entry.linkname) or [""]
            with self._folder(parents, make=False) as (source, _):
                if not (stat.S_ISREG(_mode(source, last)) or stat.S_ISLNK(_mode(source, last))):
                    raise Unreadable(f"has a hard link to what is no file: {entry.linkname[:200]!r}")
                if os.path.sameopenfile(source, folder) and last == name:
                    return
                _delete(folder, name)
                os.link(last, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            return
        if not entry.issym() and not entry.isreg():
            raise Unreadable(f"has an entry of an unknown kind: {entry.name[:200]!r}")
        _delete(folder, name)
        if entry.issym():
            os.symlink(entry.linkname, name, dir_fd=folder)
            return
        content = entries.extractfile(entry)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        with open(descriptor, "wb") as file:
            while content and (data := content.read(_CHUNK)):
                file.write(data)
            file.flush()
            os.fchmod(descriptor, (entry.mode & 0o777) | 0o600)
            os.utime(descriptor, (entry.mtime, entry.mtime))

    @contextlib.contextmanager
    def _folder(self, parts: list[str], make: bool = True) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder, and its path with a "/" at its end, as links within the image lead to it."""
        waiting, path, links = parts[::-1], list[str](), _LINKS
        current = os.dup(self._root)
        try:
            while waiting:
                part = waiting.pop()
                if part == "..":
                    path = path[:-1]
                    current = _moved(current, self._reopened(path))
                    continue
                mode = _mode(current, part)
                if stat.S_ISLNK(mode):
                    links -= 1
                    target = os.readlink(part, dir_fd=current)
                    if links < 0 or len(target) > _LONGEST:
                        raise Unreadable(f"has links that lead nowhere: {'/'.join(parts)[:200]!r}")
                    waiting += [one for one in target.split("/") if one not in ("", ".")][::-1]
                    if target.startswith("/"):
                        path = []
                        current = _moved(current, os.dup(self._root))
                    continue
                if not stat.S_ISDIR(mode):
                    if not make:
                        raise Unreadable(f"has a link to what is not there: {'/'.join(parts)[:200]!r}")
                    _delete(current, part)
                    os.mkdir(part, 0o755, dir_fd=current)
                    self._new.add("/".join([*path, part]))
                current = _moved(current, os.open(part, _FOLDER, dir_fd=current))
                path.append(part)
            yield current, "".join(f"{part}/" for part in path)
        finally:
            os.close(current)

    def _reopened(self, path: list[str]) -> int:
        current = os.dup(self._root)
        for part in path:
            current = _moved(current, os.open(part, _FOLDER, dir_fd=current))
        return current

    def _remove(self, folder: int, path: str, name: str) -> None:
        if name in ("", ".", ".."):
            raise Unreadable("removes what has no name")
        if f"{path}{name}" in self._new:
            if stat.S_ISDIR(_mode(folder, name)):
                inner = os.open(name, _FOLDER, dir_fd=folder)
                self._empty(inner, f"{path}{name}/")
                os.close(inner)
        else:
            _delete(folder, name)

    def _empty(self, folder: int, path: str) -> None:
        """Removes all that the layers below have there."""
        for name in os.listdir(folder):
            self._remove(folder, path, name)

    def finish(self, workdir: str) -> None:
        """Adds what an engine does: folders to mount upon, the folder to start in, names."""
        for name in ("dev", "proc", "sys"):
            if not stat.S_ISDIR(_mode(self._root, name)):
                _delete(self._root, name)
                os.mkdir(name, 0o755, dir_fd=self._root)
        for parts in (["tmp"], ["root"], _parts(workdir)):
            with self._folder(parts):
                pass
        with self._folder(["etc"]) as (etc, _):
            for name, line, key in (("hosts", _HOSTS, b""), ("passwd", _USER, b":1000:"), ("group", _GROUP, b":1000:")):
                _extend(etc, name, line, key)


def _extend(folder: int, name: str, line: bytes, unless: bytes) -> None:
    """A file gets a line, unless it has one with that; an empty `unless`: unless it has any."""
    with contextlib.suppress(OSError):  # a link is the image's affair
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with open(descriptor, "r+b") as file:
            there = file.read()
            if not there.strip() if not unless else unless not in there:
                file.write((b"" if there.endswith(b"\n") or not there else b"\n") + line)


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name or len(name) > _LONGEST:
        raise Unreadable(f"has a name that leads out of it: {name[:200]!r}")
    return parts


def _moved(old: int, new: int) -> int:
    os.close(old)
    return new


def _mode(folder: int, name: str) -> int:
    """0 for what is not there."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _delete(folder: int, name: str) -> None:
    """With all that is below it; of links, the link."""
    mode = _mode(folder, name)
    if not mode:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=folder)
        return
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for one in os.listdir(inner):
            _delete(inner, one)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def unpack(given: archive.Given, folder: Path) -> None:
    """Into an empty folder. Raises Unreadable, OSError."""
    tree = Tree(folder)
    try:
        with archive.contents(given) as layers:
            for layer in layers:
                tree.add(layer)
        tree.finish(given.config.workdir)
    except (tarfile.TarError, EOFError, RecursionError, ValueError) as error:
        raise Unreadable(f"has a layer that can't be read: {error}") from error
    finally:
        tree.close()


def main() -> None:
    path, digest, folder = sys.argv[1:]
    os.umask(0o022)
    try:
        (given,) = [one for one in archive.read(Path(path)) if one.digest == digest][:1]
        unpack(given, Path(folder))
        os.sync()  # what is renamed into its place is whole, also after a loss of power
    except (Unreadable, OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
