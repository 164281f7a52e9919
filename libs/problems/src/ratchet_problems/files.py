"""A data set's files as they lie in folders: which are the parts of which split.

train.jsonl, validation.jsonl
data/train-00000-of-00004.parquet ...    a repository of the Hugging Face hub
train/data-00000-of-00001.arrow ...      what `datasets` saves: save_to_disk
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import mapping

SPLITS = ("train", "validation", "valid", "dev", "test", "eval")
"""Names of files that are taken for the name of a split; one file of another name is "train"."""
_SHARD = re.compile(r"-\d+(-of-\d+(-[0-9a-f]+)?)?$")
_BESIDE = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""Files that `datasets` writes beside the data."""
_LICENCE = re.compile(r"^license:[ \t]*([\w.+-]+)[ \t]*$", re.MULTILINE)


def splits(paths: Sequence[Path]) -> Mapping[str, Sequence[Path]]:
    """The files of each split. Raises InvalidArgument for a path that is not there, a folder without data, and one with
    several data sets."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(filter(_is_data, path.rglob("*")))
        elif path.is_file():
            found.append(path)
        else:
            raise InvalidArgument(f"there is no file or folder {path}")
    if not found:
        raise InvalidArgument(f"{paths[0]} holds no file that ends in {', '.join(mapping.SUFFIXES)}")
    made: dict[str, list[Path]] = {}
    for path in found:
        made.setdefault(_split_of(path, alone=len(found) == 1), []).append(path)
    for split, files in made.items():
        folders = sorted({str(file.parent) for file in files})
        if len(folders) > 1:
            raise InvalidArgument(f"{split} is in several folders ({', '.join(folders)}): add one of them")
    return made


def licence(paths: Sequence[Path]) -> str:
    """The licence that a hub repository's card names, or an empty text."""
    for path in paths:
        card = path / "README.md"
        if path.is_dir() and card.is_file() and (found := _LICENCE.search(card.read_text("utf-8", "replace")[:20_000])):
            return found[1]
    return ""


def _is_data(path: Path) -> bool:
    return path.is_file() and mapping.is_readable(path) and path.name not in _BESIDE and not path.name.startswith(".")


def _split_of(path: Path, *, alone: bool) -> str:
    stem = _SHARD.sub("", Path(mapping.plain_name(path)).stem).lower()
    if stem == "data" and path.suffix == ".arrow":
        stem = path.parent.name.lower()
    named = next((split for split in SPLITS if stem == split or stem.endswith((f"-{split}", f"_{split}"))), "")
    return named or ("train" if alone else re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_"))
