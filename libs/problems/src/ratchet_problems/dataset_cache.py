"""The contents of data sets on this machine, which `datasets.py` fetches.

<RATCHET_HOME>/datasets/mine@1/train.parquet   a version never changes, so its name is enough
"""

from pathlib import Path

from ratchet_kit import files
from ratchet_kit.names import DatasetRef


def folder() -> Path:
    return files.home() / "datasets"


def cached(ref: DatasetRef) -> Path:
    """The place of a split's content; it need not be there."""
    return folder() / f"{ref.name}@{ref.number}" / f"{ref.split}.parquet"


def is_here(ref: DatasetRef) -> bool:
    return ref.number is not None and bool(ref.split) and cached(ref).is_file()
