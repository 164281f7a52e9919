"""Data sets: named, immutable versions of problems. docs/data.md.

dataset = upload(client, "mine", {"train": Path("train.jsonl"), "test": Path("test.jsonl")})
spec = RunSpec(problems=ProblemSetRef(name="mine@1/train"), ...)
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.errors import ApiError, Unreachable
from ratchet_client.resource import Resource, S, listed, streamed, unary
from ratchet_client.transport import SyncTransport

T = TypeVar("T")
CHUNK = 1 << 20
"""Bytes that are sent or asked for at once."""
PAUSES_S = (0.5, 1, 2, 4, 8)
"""Between tries, while the platform does not answer."""
Progress = Callable[[int, int], None]
"""Is given the bytes that are there, and all of them."""


class Datasets(Resource[S]):
    """Versions of data sets. `upload` and `download` move their files."""

    @unary
    def create(
        self, name: str, splits: Mapping[str, Path], card: pb.DatasetCard | None = None, request_id: str = ""
    ) -> Call[pb.Dataset]:
        """The next version of the name, or the one that has these files already. Its bytes go after it: see `write`.
        Raises OSError for a file that cannot be read."""
        request = pb.CreateDatasetRequest(
            request_id=request_id or new_request_id(),
            name=name,
            card=card,
            splits=[
                pb.DatasetSplit(name=split, size_bytes=file.stat().st_size, sha256=sha256(file))
                for split, file in splits.items()
            ],
        )
        return call(request, pb.CreateDatasetResponse, lambda reply: reply.dataset)

    @unary
    def write(self, name: str, number: int, split: str, data: bytes, offset: int) -> Call[int]:
        """The next bytes of a split's file, CHUNK at most; the bytes that are there then."""
        request = pb.WriteDatasetRequest(name=name, number=number, split=split, offset=offset, data=data)
        return call(request, pb.WriteDatasetResponse, lambda reply: reply.received_bytes)

    @unary
    def get(self, name: str, number: int | None = None) -> Call[pb.Dataset]:
        """Without a number the newest version that is READY."""
        request = pb.GetDatasetRequest(name=name, number=number)
        return call(request, pb.GetDatasetResponse, lambda reply: reply.dataset)

    @listed
    def list(self, name: str = "") -> Listing[pb.Dataset]:
        """All versions of all data sets, or of one, by name and the newest first."""
        return listing(pb.ListDatasetsRequest(name=name), pb.ListDatasetsResponse, lambda reply: reply.datasets)

    @streamed
    def watch(self, name: str, number: int) -> Stream[pb.Dataset]:
        """The version at every change, until it is READY or FAILED."""
        request = pb.WatchDatasetRequest(name=name, number=number)
        return stream(request, pb.WatchDatasetResponse, lambda reply: reply.dataset)

    @unary
    def read(self, name: str, number: int, split: str, offset: int = 0) -> Call[bytes]:
        """Bytes of a split's content, CHUNK at most; none at its end."""
        request = pb.ReadDatasetRequest(name=name, number=number, split=split, offset=offset)
        return call(request, pb.ReadDatasetResponse, lambda reply: reply.data)

    @listed
    def findings(
        self,
        name: str,
        number: int,
        kind: pb.Finding.Kind.ValueType = pb.Finding.KIND_UNSPECIFIED,
        split: str = "",
        problem: str = "",
        other_set: str = "",
        state: pb.Finding.State.ValueType = pb.Finding.STATE_UNSPECIFIED,
    ) -> Listing[pb.Finding]:
        """Findings of the version's examination; an empty argument selects all."""
        request = pb.ListFindingsRequest(
            name=name, number=number, kind=kind, split=split, problem=problem, other_set=other_set, state=state
        )
        return listing(request, pb.ListFindingsResponse, lambda reply: reply.findings)

    @unary
    def report_unsound(
        self, name: str, number: int, split: str, reasons: Mapping[str, str], runs: pb.ReferenceRuns | None = None
    ) -> Call[None]:
        """Records the problems of a split whose reference does not pass, by id, in place of those reported before, and
        how all of them ran."""
        request = pb.ReportUnsoundRequest(name=name, number=number, split=split, reasons=reasons, runs=runs)
        return nothing(request, pb.ReportUnsoundResponse)

    @unary
    def decide(
        self,
        name: str,
        number: int,
        state: pb.Finding.State.ValueType,
        reason: str,
        kind: pb.Finding.Kind.ValueType = pb.Finding.KIND_UNSPECIFIED,
        split: str = "",
        problem: str = "",
        other_set: str = "",
    ) -> Call[int]:
        """Accepts or refuses the findings that the last arguments select; how many they are."""
        request = pb.DecideFindingsRequest(
            name=name,
            number=number,
            kind=kind,
            split=split,
            problem=problem,
            other_set=other_set,
            state=state,
            reason=reason,
        )
        return call(request, pb.DecideFindingsResponse, lambda reply: reply.findings)

    @unary
    def delete(self, name: str, number: int, *, force: bool = False) -> Call[None]:
        """`force`: although runs or evaluations used it."""
        return nothing(pb.DeleteDatasetRequest(name=name, number=number, force=force), pb.DeleteDatasetResponse)


def upload(
    datasets: Datasets[SyncTransport],
    name: str,
    splits: Mapping[str, Path],
    card: pb.DatasetCard | None = None,
    progress: Progress = lambda done, total: None,
) -> pb.Dataset:
    """Makes the next version of the name, or finds the one that has these files, and sends what is missing of them: an
    upload that was broken off goes on where it was. The version is EXAMINING then, or READY.

    Raises OSError for a file that cannot be read, ApiError, Unreachable.
    """
    dataset = datasets.create(name, splits, card)
    total, done = sum(split.size_bytes for split in dataset.splits), 0
    for split in dataset.splits:
        if dataset.state != pb.Dataset.STATE_UPLOADING:
            break
        received = split.received_bytes
        with splits[split.name].open("rb") as file:
            while received < split.size_bytes:
                progress(done + received, total)
                file.seek(received)
                write = partial(datasets.write, dataset.name, dataset.number, split.name, file.read(CHUNK), received)
                received = _patiently(write)  # the same bytes are written once
        done += split.size_bytes
        progress(done, total)
    return datasets.get(dataset.name, dataset.number)


def settled(
    datasets: Datasets[SyncTransport], dataset: pb.Dataset, tell: Callable[[pb.Dataset], None] = lambda dataset: None
) -> pb.Dataset:
    """The version once it is READY or FAILED. `tell` is given each change before. Raises ApiError, Unreachable."""

    def watched() -> pb.Dataset:
        last = dataset
        for last in datasets.watch(dataset.name, dataset.number):
            tell(last)
        return last

    return _patiently(watched)


def _patiently(ask: Callable[[], T]) -> T:
    """The answer of a platform that may be away for a moment: it is asked again after each of PAUSES_S."""
    for seconds in PAUSES_S:
        try:
            return ask()
        except Unreachable:
            pass
        except ApiError as error:
            if error.code != "UNAVAILABLE":
                raise
        time.sleep(seconds)
    return ask()


def download(
    datasets: Datasets[SyncTransport],
    dataset: pb.Dataset,
    split: pb.DatasetSplit,
    file: Path,
    progress: Progress = lambda done, total: None,
) -> None:
    """Writes a split's content into the file: all of it or nothing. Raises ApiError, also for content that is not what
    its digest says, OSError, Unreachable."""
    new = file.with_name(f".{file.name}.part")
    try:
        with new.open("wb") as writing:
            while data := datasets.read(dataset.name, dataset.number, split.name, writing.tell()):
                writing.write(data)
                progress(writing.tell(), split.content_bytes)
        if sha256(new) != split.content_sha256:
            raise ApiError(500, "DATA_LOSS", f"{split.name} of {dataset.name}@{dataset.number} is damaged")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def sha256(file: Path) -> str:
    """Hex. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
