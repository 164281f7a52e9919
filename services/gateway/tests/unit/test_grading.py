"""The grader of feedback and replays: which problems it finds."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_service.adapters import grading
from gateway_service.adapters.grading import SandboxGrader
from gateway_service.domain.traffic.record import ProblemRef
from ratchet_environments import Task
from ratchet_environments.programs import program_for
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_problems import load, tables
from ratchet_problems.dataset_cache import cached


class NoDatasets:
    """A registry that holds none."""

    async def fetch(self, ref: DatasetRef) -> DatasetRef:
        raise NotFound(f"there is no data set {ref.name!r}; there are no data sets yet")


NO_DATASETS: Any = NoDatasets()


class ScriptedEnvironment:
    """Every answer passes."""

    def __init__(self) -> None:
        self.judged: list[Task] = []

    async def start(self, task: Task) -> Task:
        self.judged.append(task)
        return task

    async def step(self, task: Task, answer: str) -> Any:
        return SimpleNamespace(outcome=SimpleNamespace(grade=SimpleNamespace(passed=True)))


async def grade(folder: Path | None, problem_set: str) -> Any:
    environment: Any = None  # nothing gets so far
    return await SandboxGrader(environment, folder, NO_DATASETS).grade(ProblemRef(problem_set, "one"), ["x"])


@pytest.mark.parametrize("name", ["../mine.jsonl", "none.jsonl", "a\0.jsonl", f"{'a' * 5000}.jsonl", "\ud800.jsonl"])
async def test_a_set_that_is_no_file_of_the_folder_is_not_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound, match="is not known"):
        await grade(tmp_path, name)


async def test_a_set_that_cannot_be_read_is_the_operators_and_shows_no_path(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{")
    with pytest.raises(FailedPrecondition, match=r"cannot be read: mine\.jsonl line 1: line: is not JSON") as caught:
        await grade(tmp_path, "mine.jsonl")
    assert str(tmp_path) not in caught.value.message


async def test_a_data_set_is_fetched_and_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))
    problems = load("composed/test", limit=2)

    class Datasets(NoDatasets):
        async def fetch(self, ref: DatasetRef) -> DatasetRef:
            pinned = DatasetRef(ref.name, 2, ref.split or "train")
            cached(pinned).parent.mkdir(parents=True, exist_ok=True)
            tables.write(problems, cached(pinned))
            return pinned

    environment, sets = ScriptedEnvironment(), Datasets()
    grader = SandboxGrader(environment, None, sets)  # type: ignore[arg-type]
    for name in ("mine", "mine@2/train"):
        assert await grader.grade(ProblemRef(name, problems[1].id), ["x"]) == [1.0]
    assert [task.problem.id for task in environment.judged] == [problems[1].id] * 2
    with pytest.raises(NotFound, match="is not in mine@2/train"):
        await grader.grade(ProblemRef("mine", "another"), ["x"])
    monkeypatch.setattr(grading, "MOST_PROBLEMS", 1)
    with pytest.raises(FailedPrecondition, match=r"mine@2/train has 2 problems; tests of 1 at most are run here"):
        await grader.grade(ProblemRef("mine", problems[1].id), ["x"])
    with pytest.raises(NotFound, match=r"is not known: use one of .* or a data set \(there is no data set 'mine'"):
        await grade(tmp_path, "mine")


async def test_a_problem_in_another_language_is_judged_in_it(tmp_path: Path) -> None:
    test = {"stdin": "1 2\n", "expected_stdout": "3"}
    line = {"id": "one", "prompt": "Print the sum of two numbers, in Go.", "language": "golang", "tests": [test]}
    (tmp_path / "sums.jsonl").write_text(json.dumps(line) + "\n")
    environment = ScriptedEnvironment()
    grader = SandboxGrader(environment, tmp_path, NO_DATASETS)  # type: ignore[arg-type]
    assert await grader.grade(ProblemRef("sums.jsonl", "one"), ["```go\npackage main\n```"]) == [1.0]
    (task,) = environment.judged
    program = program_for(task, "```go\npackage main\n```")
    assert (program.language, program.source) == ("go", "package main\n")


async def test_a_set_that_takes_long_is_made_once_and_leaves_threads_to_others(monkeypatch) -> None:
    made, go = [], threading.Event()

    def load(name: str) -> tuple[()]:
        made.append(name)
        go.wait(60)
        return ()

    monkeypatch.setattr(grading.ratchet_problems, "load", load)
    grading._by_id.cache_clear()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    environment: Any = None  # nothing gets so far
    grader = SandboxGrader(environment, None, NO_DATASETS)
    asked = [asyncio.create_task(grader.grade(ProblemRef("basics", "one"), ["x"])) for _ in range(6)]
    await asyncio.sleep(0.1)
    try:
        assert await asyncio.wait_for(asyncio.to_thread(str, 1), 20) == "1"
    finally:
        go.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in found] == [NotFound] * 6
    assert made == ["basics"]
    grading._by_id.cache_clear()
