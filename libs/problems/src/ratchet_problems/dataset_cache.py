"""The contents of data sets on this machine, which `datasets.py` fetches.

<RATCHET_HOME>/datasets/mine@1/train.parquet         a version never changes, so its name is enough
<RATCHET_HOME>/datasets/chats@1/train.pairs.parquet  pairs, which may have to be forgotten
<RATCHET_HOME>/datasets/tasks@1/train.tasks.tar      task folders
"""

from collections.abc import Iterator
from pathlib import Path

from ratchet_kit import files
from ratchet_kit.names import DatasetRef


def folder() -> Path:
    return files.home() / "datasets"


def cached(ref: DatasetRef) -> Path:
    """The place of a split's content; it need not be there."""
    return folder() / f"{ref.name}@{ref.number}" / f"{ref.split}.parquet"


def cached_pairs(ref: DatasetRef) -> Path:
    """The same for a split of pairs."""
    return cached(ref).with_suffix(".pairs.parquet")


def cached_tasks(ref: DatasetRef) -> Path:
    """The same for a split of task folders."""
    return cached(ref).with_suffix(".tasks.tar")


def versions_of_pairs() -> Iterator[DatasetRef]:
    """The versions of which pairs are here."""
    for place in sorted({path.parent for path in folder().glob("*/*.pairs.parquet")}):
        yield DatasetRef.parse(place.name)


def is_here(ref: DatasetRef) -> bool:
    return ref.number is not None and bool(ref.split) and cached(ref).is_file()
