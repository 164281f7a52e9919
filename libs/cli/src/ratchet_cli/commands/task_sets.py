"""Data sets of task folders on this machine, for `ratchet data` and `ratchet tasks`."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_client import Client
from ratchet_client import datasets as sdk
from ratchet_client.datasets import CHUNK, Datasets, Progress
from ratchet_client.transport import SyncTransport
from ratchet_environments.folders import sets
from ratchet_environments.folders.checks import Checked
from ratchet_environments.folders.folder import find
from ratchet_environments.folders.sets import Entry, TaskSet
from ratchet_kit.names import DatasetRef
from ratchet_kit.text import storable
from ratchet_problems.dataset_splits import chosen

MOST_OF_A_REASON = 400


def entries(client: Client, dataset: pb.Dataset, split: str) -> Sequence[Entry]:
    """The manifest of a version that is READY, of one split or (empty) of all; none where it holds no task folders.
    Raises InvalidArgument, ApiError, Unreachable."""
    found: list[Entry] = []
    for one in dataset.splits if dataset.card.folders and dataset.state == pb.Dataset.STATE_READY else ():
        if split in ("", one.name):
            data, piece = b"", b"x" * CHUNK
            while len(piece) == CHUNK:  # the manifest is kept by itself, and its last piece is shorter
                piece = client.datasets.read(dataset.name, dataset.number, one.name, len(data))
                data += piece
            found += sets.entries(BytesIO(data))
    return found


def download(
    datasets: Datasets[SyncTransport],
    dataset: pb.Dataset,
    split: pb.DatasetSplit,
    into: Path,
    progress: Progress = lambda done, total: None,
) -> None:
    """Writes a split's task folders below `into`, which is made: all of them or none. Raises as the SDK's `download`,
    InvalidArgument for a place that is there already."""
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".tasks-") as folder:
        file = Path(folder, "tasks.tar")
        sdk.download(datasets, dataset, split, file, progress)
        sets.unpack(TaskSet(file), into)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task folder comes from."""

    shown: str
    """Its place, or "mine@1/train/task"."""
    split: DatasetRef | None = None
    """The split that holds it."""


@contextmanager
def local(names: Sequence[str]) -> Iterator[Mapping[Path, Place]]:
    """Task folders on this machine, as long as the context lasts: those of places, and of data sets ("mine@1", or a
    split of it). Raises InvalidArgument, what `chosen` raises, ApiError, Unreachable, OSError."""
    of_sets = [name for name in dict.fromkeys(names) if "@" in name and not Path(name).exists()]
    found = {path: Place(str(path)) for path in find([Path(name) for name in names if name not in of_sets])}
    with tempfile.TemporaryDirectory(prefix="ratchet-tasks-") as folder:
        for place, ref in enumerate(map(DatasetRef.parse, of_sets)):
            with Client() as client:
                dataset = client.datasets.get(ref.name, ref.number)
                for name in [ref.split] if ref.split else [one.name for one in dataset.splits]:
                    split = DatasetRef(dataset.name, dataset.number, name)
                    into = Path(folder, f"{place}-{name}")
                    download(client.datasets, dataset, chosen(split, dataset, folders=True), into)
                    found |= {path: Place(f"{split}/{path.name}", split) for path in find([into])}
        yield found


def report(found: Iterable[tuple[DatasetRef | None, Checked]]) -> Sequence[DatasetRef]:
    """Keeps the verdicts on tasks of data sets with their versions, as findings and as runs of references; the splits
    of which it did: none of which something is unknown. Raises ApiError, Unreachable."""
    by_split: dict[DatasetRef, dict[str, Checked]] = {}
    for ref, one in found:
        if ref is not None:
            by_split.setdefault(ref, {})[one.name] = one
    known = {ref: ones.values() for ref, ones in by_split.items() if not any(one.unknown for one in ones.values())}
    for ref, ones in known.items():
        reasons = {one.name: storable(_said(one))[:MOST_OF_A_REASON] for one in ones if not one.holds}
        solved = [one for one in ones if not one.fault]
        shared = sum(one.forgeable for one in solved)
        runs = pb.ReferenceRuns(problems=len(ones), strict=len(solved) - shared, shared=shared)
        with Client() as client:
            client.datasets.report_unsound(ref.name, ref.number or 0, ref.split, reasons, runs)
    return list(known)


def _said(one: Checked) -> str:
    return one.fault or f"won without being solved: {', '.join(win.attack.name for win in one.wins)}"
