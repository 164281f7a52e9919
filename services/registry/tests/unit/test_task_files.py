"""Data sets of task folders: each folder kept once, read back as they were sent."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from ratchet_environments.folders import sets
from ratchet_environments.folders.folder import find
from ratchet_environments.folders.sets import TaskSet
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import DatasetRef
from registry_service.domain.dataset import MAX_CHUNK, Card, DatasetSpec, State, Upload
from registry_service.domain.finding import FindingState, Kind, Rule
from registry_service.domain.reference_runs import ReferenceRuns

from ..conftest import files_below
from .test_datasets import World, world

__all__ = ["world"]
EXAMPLES = Path(__file__).parents[4] / "examples/tasks"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Two task folders, of which one is forgeable and without a solution, and one is large."""
    for name, judge in (("shared", "process"), ("large", "files")):
        folder = tmp_path / "tasks" / name
        for part in ("environment", "tests"):
            (folder / part).mkdir(parents=True)
        (folder / "task.toml").write_text(f'[metadata.ratchet]\njudge = "{judge}"\n')
        (folder / "instruction.md").write_text("Do it.")
        (folder / "environment/Dockerfile").write_text("FROM python:3.12\nCOPY . /app\n")
        (folder / "tests/test.sh").write_text("echo 0 > /logs/verifier/reward.txt\n")
    (tmp_path / "tasks/large/environment/data").write_bytes(random.Random(1).randbytes(2 * MAX_CHUNK))
    return tmp_path / "tasks"


def packed(folder: Path) -> Mapping[str, bytes]:
    return {"train": sets.write({"train": find([folder])}, folder.parent)["train"].read_bytes()}


async def test_each_folder_is_kept_once_and_all_are_read_as_they_were_sent(world: World, tasks: Path) -> None:
    data = packed(tasks)
    first = await world.add(data, part=MAX_CHUNK, folders=True)
    assert first.state is State.READY, first.failure
    content = first.splits["train"].content
    assert (content.rows, content.size_bytes, content.sha256) == (
        2,
        len(data["train"]),
        first.splits["train"].upload.sha256,
    )
    assert content.notices == (
        "2 tasks without a reference: large, shared", "1 task with tests that can be forged: shared",
    )  # fmt: skip
    assert await world.content(first) == data["train"]
    assert {path.name for path in files_below(world.root)} == {part.sha256 for part in content.parts}
    assert len(content.parts) == 3
    assert (await world.create(data, folders=True)).ref == first.ref, "the same folders again"

    (tasks / "shared/instruction.md").write_text("Do it otherwise.")
    second = await world.add(packed(tasks), part=MAX_CHUNK, folders=True)
    assert (second.number, len(files_below(world.root))) == (2, 5), "the large one is shared"
    await world.datasets.delete(first.ref, force=False)
    assert await world.content(second) == packed(tasks)["train"]
    await world.datasets.delete(second.ref, force=False)
    assert files_below(world.root) == []


async def test_verdicts_are_kept_by_task(world: World, tasks: Path) -> None:
    dataset = await world.add(packed(tasks), part=MAX_CHUNK, folders=True)
    ref, runs = DatasetRef("mine", 1, "train"), ReferenceRuns(2, 1, 0)
    await world.findings.report(ref, {"large": "the solution does not pass"}, runs)
    with pytest.raises(InvalidArgument, match=r"reasons\.other"):
        await world.findings.report(ref, {"other": "no"}, None)
    kept = (await world.findings.page(dataset.ref, Rule(Kind.UNSOUND), None, 10, "")).items
    assert [(one.problem, one.detail, one.state) for one in kept] == [
        ("large", "the solution does not pass", FindingState.OPEN)
    ]
    assert (await world.datasets.get(dataset.ref)).splits["train"].content.references == runs


async def test_what_is_wrong_is_named_and_nothing_is_kept(world: World, tasks: Path) -> None:
    (data,) = packed(tasks).values()
    for wrong, words in (
        (b"x" * 100, r"manifest\.jsonl can't be read"),
        (data[:-1] + b"x", "train/shared is not packed"),
        (
            data.replace(b"FROM python", b"RUN  python"),
            "train/shared/environment/Dockerfile:1.*; train/|train/large/environment/Dockerfile:1",
        ),
        (data + b"\0" * 512, "train/large is no tar"),
    ):
        failed = await world.add({"train": wrong}, part=MAX_CHUNK, folders=True)
        assert failed.state is State.FAILED
        with pytest.raises(InvalidArgument, match=words):
            raise InvalidArgument(failed.failure.message)
        assert files_below(world.root) == []


async def test_a_set_of_folders_is_compared_with_nothing(world: World, tasks: Path) -> None:
    await world.add(packed(tasks), "folders", part=MAX_CHUNK, folders=True)
    problems = await world.add({"train": b'{"prompt": "p", "tests": []}\n'})
    assert problems.state is State.READY, problems.failure
    for other in ({"pairs": True}, {"edition": "v1"}):
        with pytest.raises(InvalidArgument, match=r"card\.folders must not be set"):
            DatasetSpec("mine", Card(folders=True, **other), {"train": Upload(1, "0" * 64)}).check()


async def test_the_examples_make_a_set(world: World, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    file = sets.write({"train": find([EXAMPLES])}, tmp_path / "made")["train"]
    dataset = await world.add({"train": file.read_bytes()}, part=MAX_CHUNK, folders=True)
    (tmp_path / "back").write_bytes(await world.content(dataset))
    assert list(TaskSet(tmp_path / "back")) == list(TaskSet(file))
