"""Data sets of the registry, fetched to this machine once by their digest, and read by name from then on."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet.registry.v1 import dataset_pb2_grpc
from ratchet_kit import files, storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.logs import get_logger
from ratchet_kit.names import DatasetRef
from ratchet_problems.dataset_cache import cached, cached_pairs, cached_tasks, folder, is_here, versions_of_pairs
from ratchet_problems.dataset_splits import chosen

log = get_logger(__name__)

MOST_BYTES = 20 << 30
"""On this machine; the longest unused make room."""


class Datasets:
    """The registry's data sets. Each method raises Unavailable."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = dataset_pb2_grpc.DatasetServiceStub(channel)

    async def fetch(self, ref: DatasetRef) -> DatasetRef:
        """The exact version and split that `ref` names now, with its content on this machine.

        Raises NotFound, with what there is; FailedPrecondition for a version that is not READY, for a set of several
        splits of which none is named, and for a benchmark's rows; DataLoss, ResourceExhausted.
        """
        if is_here(ref):
            os.utime(cached(ref))
            return ref
        dataset = await self._get(ref)
        split = chosen(ref, dataset)
        pinned = DatasetRef(dataset.name, dataset.number, split.name)
        if not is_here(pinned):
            await self._download(pinned, split, cached(pinned))
        return pinned

    async def fetch_pairs(self, ref: DatasetRef) -> DatasetRef:
        """As `fetch`, of a data set of pairs. The registry is asked each time: what is in them may be forgotten."""
        dataset = await self._get(ref)
        split = chosen(ref, dataset, pairs=True)
        pinned = DatasetRef(dataset.name, dataset.number, split.name)
        if cached_pairs(pinned).is_file():
            os.utime(cached_pairs(pinned))
        else:
            await self._download(pinned, split, cached_pairs(pinned))
        return pinned

    async def fetch_tasks(self, ref: DatasetRef) -> DatasetRef:
        """As `fetch`, of a data set of task folders: `ratchet_environments.folders.sets` reads them."""
        if ref.number is not None and ref.split and cached_tasks(ref).is_file():
            os.utime(cached_tasks(ref))
            return ref
        dataset = await self._get(ref)
        split = chosen(ref, dataset, folders=True)
        pinned = DatasetRef(dataset.name, dataset.number, split.name)
        if not cached_tasks(pinned).is_file():
            await self._download(pinned, split, cached_tasks(pinned))
        return pinned

    async def forget(self) -> None:
        """Deletes pairs on this machine of versions that the registry has no more, or of which something is forgotten.
        Raises Unavailable."""
        for ref in await asyncio.to_thread(lambda: list(versions_of_pairs())):
            try:
                is_kept = (await self._get(ref)).state == pb.Dataset.STATE_READY
            except NotFound:
                is_kept = False
            if not is_kept:
                await asyncio.to_thread(_forget, ref)
                log.info("dataset.forgotten", dataset=str(ref))

    async def rows(self, name: str, version: str = "") -> tuple[str, bytes] | None:
        """The newest edition of a public benchmark that the platform holds, and its rows; None where it holds none.
        `version`: that edition alone."""
        request = pb.ListDatasetsRequest(name=name, page_size=100)
        try:
            with rpc_errors():
                listed = (await self._stub.ListDatasets(request)).datasets
        except NotFound:
            return None
        for dataset in listed:
            is_ready = dataset.state == pb.Dataset.STATE_READY
            if is_ready and dataset.card.edition and version in ("", dataset.card.edition):
                split = dataset.splits[0]
                ref = DatasetRef(dataset.name, dataset.number, split.name)
                return dataset.card.edition, b"".join([part async for part in self._parts(ref, split)])
        return None

    async def use(self, ref: DatasetRef, user: str) -> None:
        """Notes that a run or an evaluation uses it. Raises NotFound."""
        with rpc_errors():
            await self._stub.UseDataset(pb.UseDatasetRequest(name=ref.name, number=ref.number or 0, user=user))

    async def _get(self, ref: DatasetRef) -> pb.Dataset:
        with rpc_errors():
            return (await self._stub.GetDataset(pb.GetDatasetRequest(name=ref.name, number=ref.number))).dataset

    async def _parts(self, ref: DatasetRef, split: pb.DatasetSplit) -> AsyncIterator[bytes]:
        """The content, piece by piece. Raises DataLoss at its end where it is not that of its digest."""
        digest, done = hashlib.sha256(), 0
        while done < split.content_bytes:
            request = pb.ReadDatasetRequest(name=ref.name, number=ref.number or 0, split=ref.split, offset=done)
            with rpc_errors():
                part = (await self._stub.ReadDataset(request)).data
            if not part:
                break  # the digest says so
            digest.update(part)
            done += len(part)
            yield part
        if digest.hexdigest() != split.content_sha256:
            raise DataLoss(f"{ref} is damaged: its bytes are not those of its digest")

    async def _download(self, ref: DatasetRef, split: pb.DatasetSplit, target: Path) -> None:
        """All of it or nothing, and never more than a part of it in memory."""
        with disk_errors(str(target.parent)):
            storage.require_space(target.parent, split.content_bytes)
            with files.whole(target) as draft, draft.open("wb") as new:
                async for part in self._parts(ref, split):
                    await asyncio.to_thread(new.write, part)
        log.info("dataset.fetched", dataset=str(ref), bytes=split.content_bytes)
        await asyncio.to_thread(_make_room, target)


def _forget(ref: DatasetRef) -> None:
    for table in cached(ref).parent.glob("*.pairs.parquet"):
        table.unlink(missing_ok=True)


def _make_room(new: Path) -> None:
    """Deletes the longest unused until all are below MOST_BYTES; never the new one."""
    there: Sequence[tuple[float, int, Path]] = [
        (found.st_mtime, found.st_size, path) for path in folder().glob("*/[!.]*") for found in [path.stat()]
    ]
    left = sum(size for _, size, _ in there)
    for _, size, path in sorted(there):
        if left <= MOST_BYTES:
            return
        if path != new:
            path.unlink(missing_ok=True)
            left -= size
