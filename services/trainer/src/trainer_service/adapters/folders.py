"""ModelFolders in local folders, and in object stores such as s3://bucket/prefix."""

import asyncio
import contextlib
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ratchet_kit import storage
from ratchet_kit.allowed_sources import Places
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import NotFound
from ratchet_kit.files import DRAFT
from ratchet_kit.storage import Folder
from trainer_service.adapters import tokenizers
from trainer_service.adapters.bases import inspected
from trainer_service.domain.inputs.found import FetchedModel, FoundModel, Stored
from trainer_service.domain.run.ports import RunFile
from trainer_service.domain.run.run import RunId
from trainer_service.job.run.checkpoints import COPIES, MARKER
from trainer_service.job.run.record import RECORD

_BASE = "base"
_REWARD_MODEL = "reward-model"
_COPIES = (f"{_BASE}*", f"{_REWARD_MODEL}*")
"""Models in a run's folder, whole or in part: copies of remote ones, and those with a chat template of the run's."""
_LEFTOVERS = ("checkpoints", *_COPIES)
"""Parts of a run's folder that only a run under way needs."""


class FsspecModelFolders:
    """The folders of runs: below `runs_folder`, where a base is copied to that is not local, and below `exports`."""

    def __init__(self, runs_folder: Path, places: Places, exports: Folder | None = None) -> None:
        """`places`: where bases may lie. `exports`: None when exports are kept in the folders of the runs."""
        self._runs_folder = runs_folder
        self._places = places
        self._exports = exports

    async def inspect(self, uri: str, chat_template: str = "") -> FoundModel:
        return await asyncio.to_thread(self._inspect, uri, chat_template)

    async def fetch(self, model: FoundModel, id: RunId, name: str = _BASE, chat_template: str = "") -> FetchedModel:
        fetched = await asyncio.to_thread(self._fetch, model.uri, id, name)
        if not chat_template:
            return fetched
        target = self._runs_folder / id / f"{name}-with-template"
        await asyncio.to_thread(self._dress, fetched.path, target, chat_template)
        return replace(fetched, path=target)

    async def tidy(self, id: RunId) -> None:
        """Copies come first, and their marks before all: half of one counts for nothing, and is found again."""
        if self._exports is not None:
            await asyncio.to_thread(_remove_copies, self._exports.child(id).child(COPIES))
        for folder in [found for kept in _LEFTOVERS for found in (self._runs_folder / id).glob(kept)]:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def with_leftovers(self) -> Sequence[RunId]:
        return await asyncio.to_thread(lambda: [id for id in self._ids() if self._has_leftovers(id)])

    def _has_leftovers(self, id: RunId) -> bool:
        here = any(True for kept in _LEFTOVERS for _ in (self._runs_folder / id).glob(kept))
        return here or (self._exports is not None and COPIES in self._exports.child(id).names())

    async def stored(self) -> Sequence[Stored]:
        return await asyncio.to_thread(
            lambda: [one for id in self._ids() for one in self._stored(id) if one.size_bytes]
        )

    def _ids(self) -> list[RunId]:
        here = [path.name for path in self._runs_folder.iterdir()] if self._runs_folder.is_dir() else []
        return [RunId(name) for name in sorted({*here, *(self._exports.names() if self._exports else ())})]

    def _stored(self, id: RunId) -> Iterator[Stored]:
        of_run = self._runs_folder / id
        leftovers = sum(_bytes(one) for kept in _LEFTOVERS for one in of_run.glob(kept))
        exports = {str(one): _bytes(one) for one in (of_run / "exports").glob("*")}
        for name, size in self._stored_elsewhere(id):
            if name == COPIES:
                leftovers += size
            elif self._exports is not None:
                uri = self._exports.child(id).child(name).uri
                exports[uri] = exports.get(uri, 0) + size
        yield Stored(id, leftovers)
        yield from (Stored(id, size, uri) for uri, size in sorted(exports.items()))

    def _stored_elsewhere(self, id: RunId) -> Iterator[tuple[str, int]]:
        """Names in the run's folder of exports, with the bytes of a file below."""
        if self._exports is not None:
            with contextlib.suppress(NotFound):
                for name, size in self._exports.child(id).sizes().items():
                    yield name.partition("/")[0], size

    async def remove_export(self, id: RunId, uri: str) -> None:
        roots = [Folder(str(self._runs_folder / id / "exports"))]
        if self._exports is not None:
            roots.append(self._exports.child(id))
        if any(uri.startswith(f"{root.uri}/") and ".." not in uri for root in roots):
            await asyncio.to_thread(Folder(uri).delete)

    async def files(self, id: RunId) -> Sequence[RunFile]:
        return await asyncio.to_thread(lambda: [RunFile(name, size) for name, size in sorted(self._record(id))])

    async def read(self, id: RunId, name: str, offset: int, limit: int) -> bytes:
        def read() -> bytes:
            try:
                with (self._runs_folder / id / RECORD / name).open("rb") as file:
                    file.seek(offset)
                    return file.read(limit)
            except FileNotFoundError as error:
                raise NotFound(f"run {id} has no file {name!r} any more") from error

        return await asyncio.to_thread(read)

    def _record(self, id: RunId) -> Iterator[tuple[str, int]]:
        """Links are none of it: a job's code may have made them."""
        root = self._runs_folder / id / RECORD
        for folder, _, names in os.walk(root):
            for path in (Path(folder) / name for name in names if not name.endswith(DRAFT)):
                with contextlib.suppress(FileNotFoundError):
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        yield path.relative_to(root).as_posix(), found.st_size

    async def free_bytes(self) -> int:
        return await asyncio.to_thread(storage.free_bytes, self._runs_folder)

    async def remove(self, id: RunId) -> None:
        await asyncio.to_thread(shutil.rmtree, self._runs_folder / id, ignore_errors=True)
        if self._exports is not None:
            await asyncio.to_thread(self._exports.child(id).delete)

    def _fetch(self, uri: str, id: RunId, name: str) -> FetchedModel:
        folder = self._places.open(self._inspect(uri).uri)
        target = folder.local or self._runs_folder / id / name
        _once(target, folder.download)
        return FetchedModel(folder.uri, target)

    def _dress(self, model: Path, target: Path, chat_template: str) -> None:
        _once(target, lambda folder: tokenizers.dress(model, folder, chat_template))

    def _inspect(self, uri: str, chat_template: str = "") -> FoundModel:
        return inspected(self._places, uri, chat_template)


def _remove_copies(copies: Folder) -> None:
    for name in copies.names():
        copies.child(name).child(MARKER).delete()
    copies.delete()


def _bytes(folder: Path) -> int:
    """The size of its files that are there throughout; links are not followed."""
    size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.lstat(os.path.join(root, name)).st_size
    return size


def _once(target: Path, fill: Callable[[Path], None]) -> None:
    """Fills the folder, unless it is there: it is never there in part."""
    with disk_errors(str(target)):
        if not target.is_dir():
            # Its own: a driver that lost the run to another may be copying still.
            partial = target.with_name(f"{target.name}-{socket.gethostname()}-{os.getpid()}")
            try:
                fill(partial)
                partial.rename(target)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
