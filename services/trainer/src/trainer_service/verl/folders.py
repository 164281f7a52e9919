"""Machines that share no disk with the driver's: its folders are copied to them, and what ranks write there is brought
to the driver, who alone keeps it.

The driver's folder of a run has the logs of its jobs: a rank that does not see them is elsewhere. There the base and
the checkpoint that a run resumes from come through Ray, to the path that they have at the driver's; a
checkpoint goes the other way as soon as it is written; usage and records follow every few seconds. The copy of a run
that is over is removed when the next run comes to that machine.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.files import DRAFT
from ratchet_kit.logs import get_logger
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.record import LOGS, RECORD

CHUNK = 64 << 20
FOLLOWS_S = 2.0
_COPY = ".copy"
"""In a folder that was made here. Locked by the ranks that use it."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class File:
    size: int
    changed_ns: int


class Server:
    """At the driver's: reads and writes below `roots`."""

    def __init__(self, roots: list[str]) -> None:
        self._roots = [Path(root) for root in roots]

    def files(self, folder: str) -> dict[str, File]:
        return files(self._own(folder))

    def read(self, file: str, start: int) -> bytes:
        with self._own(file).open("rb") as opened:
            opened.seek(start)
            return opened.read(CHUNK)

    def write(self, file: str, start: int, piece: bytes, is_last: bool) -> None:
        """The file is there once it is whole: the driver may read it at any moment."""
        target = self._own(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + DRAFT)
        with part.open("r+b" if start else "wb") as opened:
            opened.seek(start)
            opened.write(piece)
        if is_last:
            os.replace(part, target)

    def _own(self, path: str) -> Path:
        resolved = Path(os.path.normpath(path))
        if not any(resolved.is_relative_to(root) for root in self._roots):
            raise PermissionError(f"{path} is not of this run")
        return resolved


def serve(job: JobConfig) -> Any:
    """Lets ranks on other machines have the run's folder, while what this returns is held. Call this at the driver's,
    before there are ranks."""
    (job.work_dir / LOGS).mkdir(exist_ok=True)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"name": _name(job), "num_cpus": 0, "scheduling_strategy": here, "max_concurrency": 4}
    return ray.remote(Server).options(**options).remote([str(job.work_dir.absolute()), job.base_path])


def _name(job: JobConfig) -> str:
    return f"folders-{job.run_id}-{job.attempt}"


_copies: "Copies | None" = None


def join() -> None:
    """Call this in a rank before it reads anything: where its machine has not the driver's folders, it gets copies."""
    global _copies
    if _copies is not None or not ray.is_initialized():
        return
    job = JobConfig.from_env()
    if (server := _server(job)) is not None:
        _copies = Copies(job.work_dir, server)
        _copies.fetch(Path(job.base_path))
        threading.Thread(target=_copies.follow, args=(job.usage_folder,), name="folders", daemon=True).start()


def _server(job: JobConfig) -> Any | None:
    """None where this machine sees the driver's folders, or nobody serves them."""
    if (job.work_dir / LOGS).is_dir():
        return None
    try:
        return ray.get_actor(_name(job))
    except ValueError:  # the cluster is one machine
        return None


def fetch(folder: Path) -> None:
    """The driver's folder is here when this returns."""
    if _copies is not None:
        _copies.fetch(folder)


def bring(folder: Path) -> None:
    """Moves the folder, as it was written here, to the driver's machine."""
    if _copies is not None:
        _copies.bring(folder)


def drop(folder: Path) -> None:
    """Removes a copy that is no longer needed."""
    if _copies is not None:
        shutil.rmtree(folder, ignore_errors=True)


class Copies:
    def __init__(self, work_dir: Path, server: Any) -> None:
        self._work_dir = work_dir
        self._server = server
        _remove_unused(work_dir.parent)
        self._held = _held(work_dir)

    def fetch(self, folder: Path) -> None:
        """Raises FailedPrecondition where this machine has another folder of that path, which nobody copied to it."""
        with self._alone():
            wanted: Mapping[str, File] = ray.get(self._server.files.remote(str(folder)))
            if (has := files(folder)) == wanted:
                return
            if has and not _is_copy(folder):
                raise FailedPrecondition(
                    f"{socket.gethostname()} has another {folder} than the machine of the driver: share the folder, or "
                    "give the base by the URL of a bucket"
                )
            began = time.monotonic()
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder / _COPY):  # another run may have the same base
                has = files(folder)
                for name in has.keys() - wanted.keys():
                    (folder / name).unlink()
                missing = {name: file for name, file in wanted.items() if has.get(name) != file}
                for name, file in missing.items():
                    self._read(folder / name, file)
            size, seconds = sum(file.size for file in missing.values()), round(time.monotonic() - began, 1)
            log.info("folder.copied", folder=str(folder), bytes=size, seconds=seconds)

    def bring(self, folder: Path) -> None:
        with self._alone():
            for name in files(folder):
                self._write(folder / name)
            shutil.rmtree(folder, ignore_errors=True)

    def follow(self, usage: Path) -> None:
        """Brings what this machine's processes write to the usage and the records of the run, until the driver ends.
        One rank does it for all of its machine; another goes on where that one ends."""
        known: dict[Path, File] = {}
        with _locked(self._work_dir / f"{_COPY}.follows"):
            while True:
                for folder in (usage, self._work_dir / RECORD):
                    for name, file in files(folder).items():
                        path = folder / name
                        if known.get(path) != file and path.suffix != DRAFT:
                            try:
                                self._write(path)
                            except OSError:  # it is gone, or the driver's disk is full: the next look is soon
                                continue
                            except Exception:  # noqa: BLE001 (Ray has many: the driver has ended)
                                return
                            known[path] = file
                time.sleep(FOLLOWS_S)

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """One rank of this machine at a time."""
        return _locked(self._work_dir / f"{_COPY}.lock")

    def _read(self, target: Path, file: File) -> None:
        """Whoever has the file of before open keeps it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + DRAFT)
        with part.open("wb") as opened:
            for start in range(0, file.size, CHUNK):
                opened.write(ray.get(self._server.read.remote(str(target), start)))
        os.utime(part, ns=(file.changed_ns, file.changed_ns))
        os.replace(part, target)

    def _write(self, source: Path) -> None:
        with source.open("rb") as opened:
            start, piece, is_last = 0, opened.read(CHUNK), False
            while not is_last:
                following = opened.read(CHUNK)
                is_last = not following
                ray.get(self._server.write.remote(str(source), start, piece, is_last))
                start, piece = start + len(piece), following


def files(folder: Path) -> dict[str, File]:
    """Each file below a folder, by its relative path; but for the mark of a copy."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(_COPY):
            with contextlib.suppress(FileNotFoundError):
                at = path.stat()
                found[path.relative_to(folder).as_posix()] = File(at.st_size, at.st_mtime_ns)
    return found


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _held(work_dir: Path) -> TextIO:
    """The mark of a copy, locked while it is open."""
    while True:
        with contextlib.suppress(FileNotFoundError):  # the folder was removed meanwhile, as unused
            work_dir.mkdir(parents=True, exist_ok=True)
            mark = (work_dir / _COPY).open("w")
            fcntl.flock(mark, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(mark.fileno()), (work_dir / _COPY).stat()):
                return mark


def _is_copy(folder: Path) -> bool:
    return (folder / _COPY).exists() or (folder.parent / _COPY).exists()


def _remove_unused(runs: Path) -> None:
    """Copies of runs of which no rank is left here. Under another name first: a rank of the run may come meanwhile."""
    for mark in runs.glob(f"*/{_COPY}"):
        with contextlib.suppress(OSError), mark.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unused = mark.parent.with_name(f"{mark.parent.name}-unused-{os.getpid()}")
            mark.parent.rename(unused)
            shutil.rmtree(unused, ignore_errors=True)
