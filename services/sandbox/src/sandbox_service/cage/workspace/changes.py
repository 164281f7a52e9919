"""A workspace's changes of its image, as a layer: files, and `.wh.NAME` for each that it has removed.

The form is that of OCI's image specification (layer.md); files.py takes it back in. As there, no link is followed.
"""

import os
import stat
from collections.abc import Generator, Iterator

from sandbox_service.cage.wire import wire
from sandbox_service.cage.workspace import files
from sandbox_service.cage.workspace.image import LOWER, UPPER

_NOW = "."


def read(frames: wire.Frames, names: tuple[str, ...], most: int) -> int:
    """Packs what has changed of what has these names, into a tar on standard output.

    Raises OSError, ValueError as files.read; what neither the image nor the workspace has is not there.
    """
    with files.Packer(most) as packer:
        for name in names:
            path = "/".join(files.parts(name))
            if path and not (_status(_NOW, path) or _status(LOWER, path)):
                raise FileNotFoundError(f"[Errno 2] No such file or directory: {name[:200]!r}")
            for one, is_there in _changes(path):
                if os.path.basename(one).startswith(files.REMOVED):
                    continue  # a file of such a name would mean something else
                if is_there:
                    with files.left_out(one, path):
                        packer.add(one)
                else:
                    packer.add_removed(one)
    return 0


def _changes(root: str) -> Iterator[tuple[str, bool]]:
    """Paths that differ, from one down; False for what is there no more. A folder that can't be read differs in
    nothing."""
    waiting, left = [root], files.MOST_ENTRIES
    while waiting:
        path = waiting.pop()
        left -= 1
        if left < 0:
            raise ValueError(f"more than {files.MOST_ENTRIES} entries have changed")
        with files.left_out(path, root):
            waiting += yield from _changes_at(path)


def _changes_at(path: str) -> Generator[tuple[str, bool], None, list[str]]:
    """As `_changes`, of one path. Returns the paths in it that may differ, the last first."""
    now, before, above = (_status(base, path) for base in (_NOW, LOWER, UPPER))
    was_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if now is None or not stat.S_ISDIR(now.st_mode):
        if before is not None and (now is None or was_folder):
            yield from ((one, False) for one in _all_below(path, was_folder))
        if now is not None and above is not None:
            yield path, True
    elif above is not None:
        if before is not None and not was_folder:
            yield path, False
        there = _names(_NOW, path)
        if path:
            yield path, True
        others = _names(UPPER, path) | (_names(LOWER, path) - there) if was_folder else there
        return [f"{path}/{name}" if path else name for name in sorted(others, reverse=True)]
    return []


def _all_below(path: str, is_folder: bool) -> list[str]:
    """All that the image has there, each before the folder that it is in."""
    found, folders = [path], [path] if is_folder else []
    while folders:
        folder = folders.pop()
        for name in _names(LOWER, folder):
            inner = f"{folder}/{name}"
            status = _status(LOWER, inner)
            found.append(inner)
            if status and stat.S_ISDIR(status.st_mode):
                folders.append(inner)
            if len(found) > files.MOST_ENTRIES:
                raise ValueError(f"more than {files.MOST_ENTRIES} entries were removed")
    return found[::-1]


def _status(base: str, path: str) -> os.stat_result | None:
    *parents, last = path.split("/")
    try:
        with files.opened(parents, base=base) as folder:
            return os.stat(last or ".", dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _names(base: str, path: str) -> set[str]:
    try:
        with files.opened(files.parts(path), base=base) as folder:
            return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()
