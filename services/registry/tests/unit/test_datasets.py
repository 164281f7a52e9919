"""Data sets from their bytes to what is kept: use cases, examination and files, over SQLite and a folder."""

import asyncio
import hashlib
import json
import pickle
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database
from ratchet_kit.worker import Worker
from ratchet_problems import CheckTest, Problem, load, tables
from ratchet_problems.near.sketches import draw
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from registry_service.adapters.alike import FsspecSketchStore
from registry_service.adapters.dataset_files import FsspecDatasetFiles, _look
from registry_service.adapters.pair_files import FsspecPairFiles
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.adapters.task_files import FsspecTaskFiles
from registry_service.domain.dataset import Card, Check, Dataset, DatasetSpec, Progress, State, Upload
from registry_service.domain.datasets import Datasets
from registry_service.domain.examinations import Examinations
from registry_service.domain.finding import FindingState, Kind, Rule
from registry_service.domain.findings import Findings
from registry_service.domain.pair_work import PairWork
from registry_service.domain.ports import DatasetFiles, DatasetStore

from ..conftest import FAST, files_below

DAY = timedelta(days=1)
PROBLEMS = load("composed/test", limit=3)
JSONL = "".join(json.dumps(problem.to_json()) + "\n" for problem in PROBLEMS).encode()
BAD = b'{"prompt": "p"}\n{"prompt": 1}\nnothing\n'


@dataclass(frozen=True, slots=True)
class World:
    datasets: Datasets
    findings: Findings
    worker: Worker[Dataset]
    root: Path
    parts: tuple[DatasetStore, DatasetFiles, MemoryQueue, ManualClock]

    async def create(self, files: Mapping[str, bytes], name: str = "mine", **card: Any) -> Dataset:
        uploads = {split: Upload(len(data), hashlib.sha256(data).hexdigest()) for split, data in files.items()}
        return await self.datasets.create(DatasetSpec(name, Card(**card), uploads), "")

    async def add(
        self, files: Mapping[str, bytes], name: str = "mine", edition: str = "", part: int = 100, **card: Any
    ) -> Dataset:
        """READY or FAILED."""
        dataset = await self.create(files, name, edition=edition, **card)
        for split, data in files.items():
            for offset in range(0, len(data), part):
                ref = DatasetRef(dataset.name, dataset.number, split)
                await self.datasets.write(ref, data[offset : offset + part], offset)
        return await self.settled(dataset)

    async def settled(self, dataset: Dataset) -> Dataset:
        stop = asyncio.Event()
        working = asyncio.create_task(self.worker.run(stop))
        async with asyncio.timeout(20):
            seen = [one async for one in self.datasets.watch(dataset.ref)]
        stop.set()
        await working
        return seen[-1]

    async def content(self, dataset: Dataset, split: str = "train") -> bytes:
        ref, data = DatasetRef(dataset.name, dataset.number, split), b""
        while more := await self.datasets.read(ref, len(data)):
            data += more
        return data


@pytest.fixture
async def world(sqlite_url: str, tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with Database.opened(sqlite_url, "registry_service") as database:
        sketches = FsspecSketchStore(str(tmp_path / "sketches"))
        store, files = SqlDatasetStore(database), FsspecDatasetFiles(str(tmp_path / "files"), sketches)
        queue = MemoryQueue()
        findings = SqlFindingStore(database)
        pairs = PairWork(store, files, FsspecPairFiles(str(tmp_path / "files")), clock)
        tasks = FsspecTaskFiles(str(tmp_path / "files"))
        examinations = Examinations(store, files, sketches, findings, pairs, tasks, "w", clock, timedelta(seconds=30))
        worker = Worker(queue, examinations, clock, timing=FAST)
        parts = store, files, queue, clock
        yield World(Datasets(*parts), Findings(store, findings, files, clock), worker, tmp_path / "files", parts)


async def test_problems_are_kept_as_a_table_and_read_back_equal(world: World, tmp_path: Path) -> None:
    dataset = await world.add({"train": JSONL, "test": JSONL.splitlines(keepends=True)[0]})
    assert (dataset.state, dataset.splits["train"].content.rows) == (State.READY, 3)
    assert dataset.splits["train"].content.balance.languages == {"python": 3}
    table = tmp_path / "table"
    table.write_bytes(await world.content(dataset))
    assert tables.read(table, "mine") == PROBLEMS
    await world.datasets.sweep(DAY)  # the worker may have been stopped before it did so
    assert len(files_below(world.root)) == 2, "the parts of the uploads are gone"
    again = await world.add({"train": table.read_bytes()}, "copy")
    assert again.splits["train"].content.digest == dataset.splits["train"].content.digest


async def test_wrong_rows_are_told_by_line_all_at_once(world: World) -> None:
    dataset = await world.add({"train": BAD})
    assert dataset.state is State.FAILED
    for fault in (
        "train line 1: tests: must be there",
        "train line 2: prompt: must be text",
        "train line 3: line: ",
    ):
        assert fault in dataset.failure.message
    with pytest.raises(FailedPrecondition, match="has no content: train line 1"):
        await world.content(dataset)
    await world.datasets.sweep(DAY)
    assert files_below(world.root) == []


async def test_code_that_cannot_run_is_told_by_problem(world: World) -> None:
    wrong = {"id": "p/1", "prompt": "p", "entry_point": "f", "tests": [{"check": "def check(candidate) assert 1"}]}
    dataset = await world.add({"train": JSONL + json.dumps(wrong).encode()})
    assert "p/1: tests[0].check: " in dataset.failure.message


async def test_bytes_that_are_not_those_announced_are_refused(world: World) -> None:
    dataset = await world.create({"train": JSONL})
    await world.datasets.write(DatasetRef("mine", 1, "train"), JSONL[:-1] + b" ", 0)
    failed = await world.settled(dataset)
    assert failed.failure.code == "DATA_LOSS"
    assert (await world.add({"train": JSONL})).number == 2


async def test_a_part_that_was_left_half_written_is_passed_over(world: World) -> None:
    dataset = await world.create({"train": JSONL})
    await world.datasets.write(DatasetRef("mine", 1, "train"), JSONL, 0)
    (part,) = files_below(world.root)
    part.with_name(".new-abc").write_bytes(b"half")
    assert (await world.settled(dataset)).state is State.READY


async def test_an_upload_goes_on_where_it_was_broken_off(world: World) -> None:
    dataset = await world.create({"train": JSONL})
    ref = DatasetRef("mine", 1, "train")
    assert await world.datasets.write(ref, JSONL[:100], 0) == 100
    assert await world.datasets.write(ref, JSONL[:100], 0) == 100, "sent twice"
    with pytest.raises(FailedPrecondition, match="has 100 bytes: go on there, not at 200"):
        await world.datasets.write(ref, JSONL[200:300], 200)
    assert (await world.create({"train": JSONL})).splits["train"].received == 100
    await world.datasets.write(ref, JSONL[100:], 100)
    assert (await world.settled(dataset)).state is State.READY


async def test_a_benchmarks_rows_are_kept_as_they_are(world: World) -> None:
    rows = b'{"task_id": 1, "text": "a"}\n{"task_id": 2, "text": "b"}\n'
    dataset = await world.add({"rows": rows}, "mbpp", edition="full")
    assert await world.content(dataset, "rows") == rows
    assert (dataset.splits["rows"].content.rows, dataset.card.edition) == (2, "full")
    assert (await world.add({"rows": b"[1]\n"}, "mbpp", edition="other")).failure.code == "INVALID_ARGUMENT"


async def test_what_is_deleted_leaves_no_file(world: World) -> None:
    first = await world.add({"train": JSONL})
    second = await world.add({"train": JSONL}, "copy")
    await world.datasets.delete(first.ref, force=False)
    assert await world.content(second)
    await world.datasets.delete(second.ref, force=False)
    await world.datasets.sweep(DAY)
    assert files_below(world.root) == []
    await world.datasets.write(DatasetRef((await world.create({"train": JSONL})).name, 2, "train"), JSONL[:9], 0)
    await world.datasets.sweep(-timedelta(seconds=1))
    assert files_below(world.root) == []
    with pytest.raises(NotFound):
        await world.datasets.get(DatasetRef("mine", 2))


async def test_what_a_deletion_takes_amid_an_examination_is_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other version is deleted once the content of this one is kept, and before it is READY."""
    first = await world.add({"train": JSONL})
    store = world.parts[0]
    complete = store.complete

    async def late(*given: Any) -> Dataset:
        await world.datasets.delete(first.ref, force=False)
        assert await world.parts[1].missing([first.splits["train"].content.sha256])
        monkeypatch.setattr(store, "complete", complete)
        return await complete(*given)

    monkeypatch.setattr(store, "complete", late)
    second = await world.add({"train": JSONL}, "copy")
    assert second.state is State.READY
    assert await world.content(second)


async def test_parts_of_an_upload_under_way_stay(world: World) -> None:
    await world.create({"train": JSONL})
    await world.datasets.write(DatasetRef("mine", 1, "train"), JSONL[:9], 0)
    await world.datasets.sweep(DAY)
    assert len(files_below(world.root)) == 1


async def test_each_field_at_fault_is_named(world: World) -> None:
    wrong = DatasetSpec("No", Card(edition="x"), {"a b": Upload(0, "beef"), "c": Upload(1, "a" * 64)})
    with pytest.raises(InvalidArgument) as error:
        await world.datasets.create(wrong, "")
    fields = {violation.field for violation in error.value.violations}
    assert fields == {"name", "splits", "splits.a b.name", "splits.a b.size_bytes", "splits.a b.sha256"}
    with pytest.raises(InvalidArgument, match="name must not be composed: problems of Ratchet's own"):
        await world.create({"train": JSONL}, "composed")
    with pytest.raises(InvalidArgument, match="splits must not be empty"):
        await world.datasets.create(DatasetSpec("mine", Card(), {}), "")


PUBLIC = "Write a function to find the longest run of equal neighbours in a list of integers."
RUN = """\
def longest_run(values):
    best = current = 0
    for place, value in enumerate(values):
        current = current + 1 if place and values[place - 1] == value else 1
        best = max(best, current)
    return best if len(values) > 1 else len(values)
"""


def line(id: str, prompt: str, code: str = RUN) -> bytes:
    return json.dumps({"id": id, "prompt": prompt, "references": [code]}).encode() + b"\n"


TEMPERATURE = "Convert degrees of Celsius to Fahrenheit."


async def test_near_duplicates_are_told(world: World) -> None:
    row = {"task_id": 11, "text": PUBLIC, "code": RUN, "test_list": ["assert longest_run([1]) == 1"]}
    rows = [{**row, "task_id": number, "test_setup_code": "", "challenge_test_list": []} for number in (11, 601)]
    await world.add({"rows": "".join(f"{json.dumps(row)}\n" for row in rows).encode()}, "mbpp", "2021")
    renamed = RUN.replace("longest_run", "f").replace("values", "xs").replace("current", "n")
    files = {
        "train": line("t1", TEMPERATURE, "def f(c):\n    return c * 1.8 + 32\n") + line("t2", "Runs.", renamed),
        "validation": line("v1", "What is the longest run of identical items in an array?"),
    }
    dataset = await world.add(files)
    train, validation = (dataset.splits[name].content.notices for name in files)
    assert train[1:] == ("1 problem is nearly the same as problems of mbpp: t2 like Mbpp/11 (reference 1.00)",)
    assert [notice.split(":")[0] for notice in validation[1:]] == [
        "1 problem is nearly the same as problems of train",
        "1 problem is nearly the same as problems of mbpp",
    ]
    again = await world.add({"train": files["validation"] + line("v2", PUBLIC)}, "other")
    assert [notice.split(":")[0] for notice in again.splits["train"].content.notices[1:]] == [
        "1 problem is nearly the same as earlier ones",
        "2 problems are nearly the same as problems of mbpp",
        "2 problems are nearly the same as problems of mine@1/validation",
    ]
    newer = await world.add({"train": files["validation"]})
    assert "mine@1" not in " ".join(newer.splits["train"].content.notices), "its own earlier version"


async def test_the_sets_of_other_projects_are_not_compared(world: World) -> None:
    """A finding names the set and the problem that are nearly the same."""
    for name in ("beta~mine", "shared"):
        await world.add({"test": line("t", TEMPERATURE)}, name)
    with projects.acting("acme"):
        own = await world.add({"test": line("t", TEMPERATURE)}, "acme~mine")
    notices = " ".join(own.splits["test"].content.notices)
    assert "shared@1/test" in notices
    assert "beta" not in notices


async def test_every_set_that_may_be_measured_on_is_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry_service.domain.examinations.VERSIONS_AT_ONCE", 1)
    for letter in "abc":
        await world.add({"test": line(letter, TEMPERATURE), "train": line("t", PUBLIC)}, letter)
    alone = (await world.add({"train": line("x", "Count words.")}, "alone")).splits["train"].content
    copy = (await world.add({"train": line("a", TEMPERATURE)}, "copy")).splits["train"].content
    assert copy.compared_sets - alone.compared_sets == 0, "those for training are not measured on"
    assert [notice.split(":")[0][-8:] for notice in copy.notices[1:]] == ["a@1/test", "b@1/test", "c@1/test"]

    gated = {DatasetRef("b", 1), DatasetRef("copy", 1), DatasetRef("mine", 1)}

    async def measured(store: SqlDatasetStore) -> set[DatasetRef]:
        return gated

    monkeypatch.setattr(SqlDatasetStore, "gated", measured)
    await world.add({"train": line("m", "Count words."), "test": line("n", PUBLIC)})
    again = await world.add({"train": line("m", PUBLIC), "test": line("n", "Count words.")})
    train, test = (again.splits[name].content for name in ("train", "test"))
    assert (train.compared_sets, train.compared_problems) == (test.compared_sets, test.compared_problems), (
        "mine@1/test, and the split before"
    )
    told = " ".join(train.notices)
    assert "b@1/train" in told
    assert "mine@1/test" in told
    assert not {"a@1/train", "mine@1/train"} & set(told.replace(":", "").split()), "nothing measured them"
    assert "mine@1" not in " ".join(test.notices), "versions share most of their problems"


async def test_findings_are_listed_and_decided(world: World) -> None:
    key = "ghp_" + "a1B2" * 9
    train = line("t1", f"Runs of {key}") + line("t2", "Mail a@mail.example.org")
    await world.add({"train": train, "test": line("v", "R")})
    ref = DatasetRef("mine", 1)
    found = (await world.findings.page(ref, Rule(), None, 0, "")).items
    shown = {(it.kind, it.split, it.problem, it.other_set, it.other, it.detail) for it in found}
    assert {it for it in shown if it[0] is not Kind.NO_TESTS} == {
        (Kind.SECRET, "train", "t1", "", "", "prompt"),
        (Kind.EMAIL, "train", "t2", "", "", "prompt"),
        (Kind.NEAR_DUPLICATE, "train", "t2", "train", "t1", "reference 1.00"),
        (Kind.NEAR_DUPLICATE, "test", "v", "train", "t1", "reference 1.00"),
    }
    near = Rule(Kind.NEAR_DUPLICATE)
    assert await world.findings.decide(ref, near, FindingState.ACCEPTED, "the same on purpose", "key_1") == 2
    accepted = (await world.findings.page(ref, Rule(), FindingState.ACCEPTED, 1, "")).items
    assert [(it.decision.actor, it.decision.reason) for it in accepted] == [("key_1", "the same on purpose")]
    with pytest.raises(NotFound, match="mine@1 has no such finding"):
        await world.findings.decide(ref, Rule(Kind.FORGEABLE_TESTS), FindingState.REFUSED, "r", "")
    with pytest.raises(InvalidArgument) as error:
        await world.findings.decide(ref, Rule(split="s" * 401), FindingState.REFUSED, "  ", "")
    assert {violation.field for violation in error.value.violations} == {"split", "kind", "reason"}
    await world.create({"train": JSONL})
    with pytest.raises(FailedPrecondition, match="mine@2 is uploading: its findings are decided once it is ready"):
        await world.findings.decide(DatasetRef("mine", 2), near, FindingState.REFUSED, "r", "")


async def test_who_watches_sees_how_far_an_examination_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told = asyncio.get_running_loop().create_future()

    class Slow(FsspecSketchStore):
        async def alike(self, splits, others, tell):
            tell("train", 1, 4)
            await told
            return {}

    monkeypatch.setattr(FsspecSketchStore, "alike", Slow.alike)
    dataset = await world.create({"train": JSONL})
    await world.datasets.write(replace(dataset.ref, split="train"), JSONL, 0)
    stop = asyncio.Event()
    working = asyncio.create_task(world.worker.run(stop))
    seen = []
    async with asyncio.timeout(120):
        async for one in world.datasets.watch(dataset.ref):
            seen.append((one.state, *one.progress.values()))
            if Progress(Check.NEAR_DUPLICATES, 1, 4) in one.progress.values() and not told.done():
                told.set_result(None)
    stop.set()
    await working
    assert (State.EXAMINING, Progress(Check.NEAR_DUPLICATES, 1, 4)) in seen
    assert seen[-1] == (State.READY,)


async def test_rows_of_a_benchmark_that_cannot_be_read_are_kept_all_the_same(world: World) -> None:
    assert (await world.add({"rows": b'{"text": 1}\n'}, "mbpp", "2021")).state is State.READY


async def test_secrets_and_addresses_are_told(world: World) -> None:
    key = "ghp_" + "a1B2" * 9
    lines = [line(str(place), f"Write {place} to user{place}@mail.example.org") for place in range(6)]
    lines += [line("call", "Dial +1 650-253-0000, then sort."), line("sum", "Add 6502530000 and x+2147483648.")]
    lines += [line("key", f"Log in with {key} and sort the list."), line("fine", "Sort a list_of_values_in_place2.")]
    dataset = await world.add({"train": b"".join(lines)})
    notices = dataset.splits["train"].content.notices
    assert "1 problem with what looks like a key or a token: key" in notices
    assert "6 problems with an e-mail address: 0, 1, 2, 3, 4 ..." in notices
    assert "1 problem with a phone number: call" in notices


def test_what_another_process_sees_of_problems_comes_back_whole() -> None:
    bad = Problem("bad", "Write f.", (CheckTest("assert 1"),), "f", ("def f(): pass",))
    bare = replace(load("basics")[0], references=())
    seen = pickle.loads(pickle.dumps(_look("train", [bad, bare])))
    assert seen.faults == [("bad", "tests[0].check: never calls the program")]
    assert [(one.kind, one.problem) for one in seen.findings] == [(Kind.NO_REFERENCE, bare.id)]
    assert seen.drawn == draw([bad, bare])


async def test_an_operator_says_which_licences_are_allowed(world: World) -> None:
    careful = Datasets(*world.parts, ["MIT", "Apache-2.0"])
    upload = {"train": Upload(1, "0" * 64)}
    for licence in ("", "GPL-3.0"):
        with pytest.raises(InvalidArgument, match="operator allows: MIT, Apache-2"):
            await careful.create(DatasetSpec("mine", Card(licence=licence), upload), "")
    assert (await careful.create(DatasetSpec("mine", Card(licence="MIT"), upload), "")).number == 1
