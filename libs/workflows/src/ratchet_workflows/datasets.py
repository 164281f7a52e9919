"""Work on versions of a data set: another division into splits, problems left out, and the difference of two."""

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ratchet_benchmarks
from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_benchmarks import dataset_of
from ratchet_client import Client
from ratchet_client.address import home
from ratchet_client.datasets import download, settled, upload
from ratchet_client.errors import Unreachable
from ratchet_kit.errors import RatchetError
from ratchet_kit.names import DatasetRef, check_split_name
from ratchet_kit.text import clip
from ratchet_problems import CheckTest, Problem, splitting, tables
from ratchet_problems.dataset_splits import chosen
from ratchet_workflows.errors import UsageError

MOST_TEXT = 4_000
"""Bytes of a prompt, a reference or the tests that a text has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Problems of a split in two versions, by their ids."""

    added: Sequence[str]
    removed: Sequence[str]
    changed: Mapping[str, Sequence[str]]
    """With the fields that differ."""
    same: int


@contextmanager
def files(client: Client, dataset: pb.Dataset, *splits: str) -> Iterator[Mapping[str, Path]]:
    """Its tables, by split, as long as the context lasts: all, or those of `splits`. Raises UsageError for the rows of
    a benchmark, for task folders and for pairs, ApiError, Unreachable, OSError."""
    if dataset.card.edition:
        raise UsageError(f"{dataset.name} is a public benchmark: its rows are no problems yet")
    if dataset.card.folders:
        raise UsageError(f"{dataset.name} holds task folders, and no problems: make another version of other folders")
    if dataset.card.pairs:
        raise UsageError(f"{dataset.name} holds pairs, and no problems: make its splits before you add it")
    with tempfile.TemporaryDirectory(prefix="ratchet-data-") as folder:
        found = [split for split in dataset.splits if not splits or split.name in splits]
        made = {split.name: Path(folder, f"{split.name}.parquet") for split in found}
        for split in found:
            download(client.datasets, dataset, split, made[split.name])
        yield made


def pinned(client: Client, ref: DatasetRef) -> DatasetRef:
    """The exact version and split that a name stands for now. Raises what `chosen` raises, ApiError, Unreachable."""
    dataset = client.datasets.get(ref.name, ref.number)
    return DatasetRef(dataset.name, dataset.number, chosen(ref, dataset).name)


@contextmanager
def local(name: str) -> Iterator[str]:
    """The name by which the problems are read on this machine, as long as the context lasts: a data set's split is
    fetched from the platform, and a file lies below RATCHET_HOME, as for the services of `ratchet up`, or here. Raises
    UsageError where nobody knows the name, and what `pinned` raises; OSError."""
    ref = dataset_of(name)
    if ref is None:
        file = home() / name
        yield str(file) if file.is_file() else name
        return
    with ExitStack() as open_here:
        try:
            client = open_here.enter_context(Client())
            dataset = client.datasets.get(ref.name, ref.number)
        except Unreachable as error:
            raise UsageError(f"no benchmark {name!r}, and nobody knows whether it is a data set: {error}") from error
        source = chosen(ref, dataset).name
        yield str(open_here.enter_context(files(client, dataset, source))[source])


def texts(dataset: pb.Dataset, name: str, ids: Collection[str]) -> Mapping[str, str]:
    """Problems of a set, as people read them, by id: of a split of the data set, a split of another, a benchmark, or a
    set of Ratchet's own. Those that can be had; a benchmark has to be on this machine. Raises ApiError."""
    is_split = name in [split.name for split in dataset.splits]
    try:
        with local(f"{dataset.name}@{dataset.number}/{name}" if is_split else name) as here:
            problems = (
                _problems(Path(here)) if here.endswith(".parquet") else iter(ratchet_benchmarks.load(here).problems)
            )
            return {one.id: _text(one) for one in problems if one.id in ids}
    except (UsageError, RatchetError):
        return {}


def _text(problem: Problem) -> str:
    tests = (test.code if isinstance(test, CheckTest) else json.dumps(test.to_json()) for test in problem.tests)
    return "\n\n".join(
        clip(part, MOST_TEXT) for part in (problem.shown, *problem.references[:1], "\n".join(tests)) if part
    )


def split(client: Client, ref: DatasetRef, shares: Mapping[str, float]) -> pb.Dataset:
    """Makes the next version of the data set, of whose split `ref.split` (or its only one) these shares became splits
    of their own. Problems of one structure, or of one prompt, stay together. READY or FAILED.

    Raises UsageError, InvalidArgument for a name or shares that cannot be, what `chosen` raises, ApiError, Unreachable,
    OSError.
    """
    dataset = client.datasets.get(ref.name, ref.number)
    source, names = chosen(ref, dataset).name, [one.name for one in dataset.splits]
    for name in shares:
        if check_split_name(name) in names:
            raise UsageError(f"{dataset.name}@{dataset.number} has a split {name} already")
    with files(client, dataset) as tables_of:
        drawn = splitting.draw(map(splitting.kin, _problems(tables_of[source])), shares, source)
        parts = {name: _those(tables_of[source], drawn, name) for name in (*shares, source)}
        return _next(client, dataset, tables_of, parts)


def with_split(client: Client, ref: DatasetRef, problems: Sequence[Problem]) -> pb.Dataset:
    """Makes the next version of a data set, in which these are the problems of the split; the others stay as they are.
    `ref`: `pinned`. READY or FAILED. Raises UsageError, ApiError, Unreachable, OSError."""
    dataset = client.datasets.get(ref.name, ref.number)
    with files(client, dataset) as tables_of:
        return _next(client, dataset, tables_of, {ref.split: problems})


def without_refused(client: Client, dataset: pb.Dataset) -> pb.Dataset:
    """Makes the next version of a data set, without the problems of refused findings. READY or FAILED. Raises
    UsageError where none is left out or nothing is left of a split, ApiError, Unreachable, OSError."""
    refused: dict[str, set[str]] = {}
    for finding in client.datasets.findings(dataset.name, dataset.number, state=pb.Finding.STATE_REFUSED):
        refused.setdefault(finding.split, set()).add(finding.problem)
    if not refused:
        raise UsageError(f"no finding of {dataset.name}@{dataset.number} was refused")
    with files(client, dataset) as tables_of:
        parts = {
            split: [one for one in _problems(tables_of[split]) if one.id not in ids] for split, ids in refused.items()
        }
        if empty := [split for split, problems in parts.items() if not problems]:
            raise UsageError(f"all problems of {', '.join(empty)} were refused: nothing would be left of it")
        return _next(client, dataset, tables_of, parts)


def _next(
    client: Client, dataset: pb.Dataset, tables_of: Mapping[str, Path], parts: Mapping[str, Iterable[Problem]]
) -> pb.Dataset:
    made = dict(tables_of)
    for name, problems in parts.items():
        made[name] = next(iter(tables_of.values())).with_name(f"{name}.new")
        tables.write(problems, made[name])
    card = pb.DatasetCard()
    card.CopyFrom(dataset.card)
    card.made_of = f"{dataset.name}@{dataset.number}"
    return settled(client.datasets, upload(client.datasets, dataset.name, made, card))


def difference(client: Client, before: DatasetRef, after: DatasetRef) -> Mapping[str, Difference]:
    """By split; one that only one of them has is compared with nothing. Where a split is named these two are compared
    alone, and a name without one takes the other's. Raises UsageError, what `chosen` raises, ApiError, Unreachable,
    OSError."""
    old, new = (client.datasets.get(ref.name, ref.number) for ref in (before, after))
    if not before.split and not after.split:
        with files(client, old) as olds, files(client, new) as news:
            return {name: compared(olds.get(name), news.get(name)) for name in dict.fromkeys((*olds, *news))}
    one = chosen(replace(before, split=before.split or after.split), old).name
    other = chosen(replace(after, split=after.split or before.split), new).name
    with files(client, old, one) as olds, files(client, new, other) as news:
        return {one if one == other else f"{one}, {other}": compared(olds[one], news[other])}


def compared(before: Path | None, after: Path | None) -> Difference:
    """Two tables, neither of which lies in memory."""
    olds = {one.id: one.digest for one in _problems(before)}
    news = {one.id: one.digest for one in _problems(after)}
    changed = [id for id, digest in news.items() if olds.get(id, digest) != digest]
    records = {id: [record] for id, record in _records(before, set(changed))}
    for id, record in _records(after, set(changed)):
        records[id].append(record)
    return Difference(
        [id for id in news if id not in olds],
        [id for id in olds if id not in news],
        {id: _fields(*records[id]) for id in changed},
        sum(olds.get(id) == digest for id, digest in news.items()),
    )


def _those(table: Path, drawn: Mapping[str, str], split: str) -> Iterator[Problem]:
    return (one for one in _problems(table) if drawn[splitting.kin(one)] == split)


def _problems(table: Path | None) -> Iterator[Problem]:
    return iter(()) if table is None else tables.checked(table, table.stem)


def _records(table: Path | None, ids: set[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((one.id, one.to_json()) for one in _problems(table) if one.id in ids)


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
