"""Data sets of pairs: kept as tables, and forgotten by user."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition, Unavailable
from ratchet_kit.names import DatasetRef
from ratchet_problems import pair_tables
from registry_service.domain.dataset import Dataset, State

from ..conftest import NOW, files_below
from .test_datasets import World, world

__all__ = ["world"]
LATER = NOW + timedelta(hours=1)


def line(text: str, *units: str, minutes: int = 0) -> Mapping[str, Any]:
    time = (NOW + timedelta(minutes=minutes)).isoformat()
    origin = {"origin": {"exchanges": [f"cmpl_{text}"], "units": list(units), "time": time}} if units else {}
    return {"id": text, "problem": f"Write {text}.", "chosen": f"good {text}", "rejected": f"bad {text}"} | origin


def jsonl(*lines: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in lines).encode()


ANN, BOB = line("a", "ann", "key"), line("b", "bob", "key")


async def rows(world: World, dataset: Dataset, tmp_path: Path, split: str = "train") -> list[str]:
    table = tmp_path / "table"
    table.write_bytes(await world.content(dataset, split))
    return [pair.chosen for pair in pair_tables.read(table, "mine")]


def a_minute_passes(world: World) -> None:
    """Once the worker has let go: another one's turn comes after its lease."""
    _, _, queue, clock = world.parts

    def passes() -> None:
        clock.advance(timedelta(minutes=1))
        queue.expire()

    asyncio.get_running_loop().call_later(0.5, passes)


async def newest(world: World, name: str = "mine") -> Dataset:
    return await world.datasets.get(DatasetRef(name))


async def test_pairs_are_kept_as_a_table_and_read_back_equal(world: World, tmp_path: Path) -> None:
    dataset = await world.add({"train": jsonl(ANN, line("c"))}, pairs=True)
    assert dataset.state is State.READY
    table = tmp_path / "table"
    table.write_bytes(await world.content(dataset))
    first, second = pair_tables.read(table, "mine")
    assert (first.problem, first.chosen, first.origin.units, first.origin.exchanges) == (
        "Write a.",
        "good a",
        ("ann", "key"),
        ("cmpl_a",),
    )
    assert (first.origin.time, second.origin) == (NOW, None)
    again = await world.add({"train": table.read_bytes()}, "copy", pairs=True)
    assert again.splits["train"].content.digest == dataset.splits["train"].content.digest


async def test_wrong_rows_and_private_ones_are_told(world: World) -> None:
    failed = await world.add({"train": jsonl({"prompt": "p", "chosen": "a"}, {"prompt": "p"})}, pairs=True)
    assert "train line 1: rejected: is missing" in failed.failure.message
    assert "train line 2: chosen: is missing" in failed.failure.message
    private = await world.add({"train": jsonl(line("ann@example.com"))}, pairs=True)
    assert private.splits["train"].content.notices == ("1 pair with an e-mail address: ann@example.com",)


async def test_who_is_forgotten_leaves_every_version_and_the_newest_is_made_anew(world: World, tmp_path: Path) -> None:
    first = await world.add({"train": jsonl(ANN)}, pairs=True)
    second = await world.add({"train": jsonl(ANN, BOB), "validation": jsonl(line("d", "dan"))}, pairs=True)
    other = await world.add({"train": jsonl(BOB)}, "other", pairs=True)
    await world.datasets.forget({"ann": LATER})
    with pytest.raises(FailedPrecondition, match="mine@2 is examining: it has no content"):
        await world.content(second)
    assert [(await world.settled(one)).state for one in (first, second)] == [State.FAILED, State.FAILED]
    made = await newest(world)
    assert (made.number, made.card.made_of, made.card.pairs) == (3, "mine@2", True)
    assert await rows(world, made, tmp_path) == ["good b"]
    assert await rows(world, made, tmp_path, "validation") == ["good d"]
    assert await newest(world, "other") == other
    assert not any(b"good a" in file.read_bytes() for file in files_below(world.root))
    assert len(files_below(world.root)) == 2, "bob's alone, which two sets have, and dan's"
    await world.datasets.forget({"key": LATER, "dan": LATER})
    for dataset in (made, other):
        assert (await world.settled(dataset)).failure.message.startswith("something in it is forgotten")
    assert files_below(world.root) == []


async def test_what_was_said_later_stays(world: World, tmp_path: Path) -> None:
    dataset = await world.add({"train": jsonl(ANN, line("later", "ann", minutes=90))}, pairs=True)
    await world.datasets.forget({"ann": LATER})
    await world.settled(dataset)
    assert await rows(world, await newest(world), tmp_path) == ["good later"]
    await world.datasets.forget({"ann": NOW})  # told again, late: nothing of it changes
    assert (await newest(world)).state is State.READY


async def test_who_was_forgotten_before_an_upload_is_not_in_it(world: World, tmp_path: Path) -> None:
    await world.datasets.forget({"ann": LATER})
    dataset = await world.add({"train": jsonl(ANN, BOB)}, pairs=True)
    assert await rows(world, dataset, tmp_path) == ["good b"]
    failed = await world.add({"train": jsonl(ANN)}, pairs=True)
    assert failed.failure.message == "all of its pairs are forgotten"
    await world.datasets.sweep(timedelta(days=1))
    assert len(files_below(world.root)) == 1


async def test_who_is_forgotten_during_an_examination_is_not_in_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.parts[0]
    complete = store.complete

    async def slow(*arguments: Any) -> Dataset:
        monkeypatch.undo()
        await world.datasets.forget({"ann": LATER})
        a_minute_passes(world)
        return await complete(*arguments)

    monkeypatch.setattr(store, "complete", slow)
    dataset = await world.add({"train": jsonl(ANN, BOB)}, pairs=True)
    assert await rows(world, dataset, tmp_path) == ["good b"]


@pytest.mark.parametrize("method", ["remake", "release", "change"])
async def test_a_worker_that_is_cut_off_leaves_the_rest_to_the_next(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Before the next version is made, before the files are deleted, and after."""
    dataset = await world.add({"train": jsonl(ANN, BOB)}, pairs=True)
    await world.datasets.forget({"ann": LATER})
    store = world.parts[0]
    whole, cut_off = getattr(store, method), False

    async def broken(*arguments: Any) -> Any:
        nonlocal cut_off
        if not cut_off and (method != "change" or _ends(await store.get(arguments[0]), arguments[1])):
            cut_off = True
            a_minute_passes(world)
            raise Unavailable("the database is away")
        return await whole(*arguments)

    monkeypatch.setattr(store, method, broken)
    assert (await world.settled(dataset)).state is State.FAILED
    made = await newest(world)
    assert made.number == 2
    assert await rows(world, made, tmp_path) == ["good b"]
    assert not any(b"good a" in file.read_bytes() for file in files_below(world.root))


def _ends(dataset: Dataset, change: Callable[[Dataset], Dataset]) -> bool:
    """Neither claims it nor renews the hold: a slow machine renews more often."""
    return change(dataset).state is State.FAILED
