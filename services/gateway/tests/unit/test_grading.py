"""The grader of feedback and replays: which problems it finds."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway_service.adapters import grading
from gateway_service.adapters.grading import SandboxGrader
from gateway_service.domain.traffic.record import ProblemRef
from ratchet_kit.errors import FailedPrecondition, NotFound


async def grade(folder: Path | None, problem_set: str) -> Any:
    environment: Any = None  # nothing gets so far
    return await SandboxGrader(environment, folder).grade(ProblemRef(problem_set, "one"), ["x"])


@pytest.mark.parametrize("name", ["../mine.jsonl", "none.jsonl", "a\0.jsonl", f"{'a' * 5000}.jsonl", "\ud800.jsonl"])
async def test_a_set_that_is_no_file_of_the_folder_is_not_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound, match="is not known"):
        await grade(tmp_path, name)


async def test_a_set_that_cannot_be_read_is_the_operators_and_shows_no_path(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{")
    with pytest.raises(FailedPrecondition, match=r"mine\.jsonl cannot be read: line: is not JSON") as caught:
        await grade(tmp_path, "mine.jsonl")
    assert str(tmp_path) not in caught.value.message


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
    grader = SandboxGrader(environment, None)
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
