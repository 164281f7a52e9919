"""A platform's folder as one file, and back: databases, artifacts, secrets, and files that users brought.

Queues are not in it: SQL holds the truth, and what was under way is taken up from there.
"""

import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from ratchet_local.errors import PlatformError
from ratchet_local.home import Home

ABOUT = "backup.json"
REMADE = frozenset({"logs", "redis", "rollout", "state.json", "state.tmp", "supervisor.lock"})
"""Entries of the folder that a platform makes again."""
DRAFT = "backup-"
Progress = Callable[[int], None]
"""Hears how many bytes are saved."""


def save(home: Home, file: Path, progress: Progress) -> int:
    """Writes the folder to `file`, readable by its owner only, while the platform goes on; returns its bytes.

    Databases come first, each as it is at a moment (SQLite's online backup). Files that they name are written before
    their rows are and never change, so that all of them are there later. Raises PlatformError when there is no folder,
    `file` exists or lies within the folder, or cannot be written: then none is left.
    """
    if not home.databases.is_dir():
        raise PlatformError(f"Nothing to save: no platform was started in {home.path}.")
    if file.exists():
        raise PlatformError(f"{file} exists. Name a new file.")
    if file.resolve().is_relative_to(home.path.resolve()):
        raise PlatformError(f"{file} is within what is saved, {home.path}. Name a file elsewhere.")
    draft = file.with_name(f"{file.name}.part")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:
            with tarfile.open(fileobj=raw, mode="w") as tar:
                _add_bytes(tar, ABOUT, json.dumps({"folder": str(home.path.resolve())}).encode())
                _add_databases(tar, home)
                for path in _files(home):
                    _add(tar, path, str(path.relative_to(home.path)))
                    progress(raw.tell())
            raw.flush()
            os.fsync(raw.fileno())
        draft.replace(file)
    except (OSError, sqlite3.Error) as error:
        raise PlatformError(f"{file} cannot be written: {getattr(error, 'strerror', None) or error}.") from error
    finally:
        draft.unlink(missing_ok=True)
    return file.stat().st_size


def restore(home: Home, file: Path) -> None:
    """Makes the folder again of a file that `save` wrote. It is whole or not there.

    Raises PlatformError when there is something in the folder, when the file is no backup, or one of another folder
    (records name their files by path), or when it cannot be written.
    """
    if home.path.exists() and any(home.path.iterdir()):
        raise PlatformError(f"{home.path} is not empty. Stop what runs there, and move the folder away; then restore.")
    try:
        home.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix=f"{home.path.name}.", dir=home.path.parent) as folder,
            tarfile.open(file, "r:") as tar,
        ):
            _check_folder(home, file, tar)
            draft = Path(folder) / "whole"
            draft.mkdir(mode=0o700)
            tar.extractall(draft, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
            (draft / ABOUT).unlink()
            draft.replace(home.path)
    except tarfile.TarError as error:
        raise PlatformError(f"{file} is no backup of a platform, or not all of one: {error}.") from error
    except OSError as error:
        raise PlatformError(f"{home.path} cannot be written: {error.strerror or error}.") from error


def _check_folder(home: Home, file: Path, tar: tarfile.TarFile) -> None:
    first = tar.next()
    content = tar.extractfile(first) if first and first.name == ABOUT else None
    if content is None:
        raise PlatformError(f"{file} is no backup of a platform.")
    folder = json.load(content)["folder"]
    if folder != str(home.path.resolve()):
        raise PlatformError(
            f"{file} is of {folder}, and its records name files there. Restore it there: "
            f"RATCHET_HOME={folder} ratchet restore {file}"
        )


def _add_databases(tar: tarfile.TarFile, home: Home) -> None:
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=home.path) as folder:
        for database in sorted(home.databases.glob("*.db")):
            copy = Path(folder) / database.name
            source, target = sqlite3.connect(database), sqlite3.connect(copy)
            try:
                source.backup(target)
            finally:
                source.close()
                target.close()
            _add(tar, copy, f"{home.databases.name}/{database.name}")


def _files(home: Home) -> Iterator[Path]:
    for entry in sorted(home.path.iterdir()):
        if entry.name in REMADE or entry == home.databases or entry.name.startswith(DRAFT):
            continue
        yield entry
        if entry.is_dir():
            yield from sorted(entry.rglob("*"))


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Leaves out what went meanwhile."""
    try:
        info = tar.gettarinfo(path, name)
        if info is None or not info.isreg():
            if info is not None:
                tar.addfile(info)
            return
        with path.open("rb") as content:
            info.size = os.fstat(content.fileno()).st_size
            tar.addfile(info, content)
    except FileNotFoundError:
        return


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    tar.addfile(info, BytesIO(content))
