"""Test code is compiled once for all the programs that it judges."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from sandbox_service.adapters.lanes.compiled import CompiledTests
from sandbox_service.domain.jobs import (
    Answer,
    CallJob,
    CheckJob,
    CompileJob,
    End,
    Oversized,
    Raised,
    Report,
    Returned,
    Setting,
    Stage,
)
from sandbox_service.domain.program import Limits

REPORT = Report(End.EXITED, 0, Stage.STARTED, timedelta(), timedelta(), ())


class Lane:
    """Answers with a digest of the code, or with what it is given."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.compiled: list[str] = []
        self._answer = answer

    async def run(self, job: CompileJob) -> Callable[[], Report]:
        self.compiled.append(job.code)
        answer = self._answer or Returned(made_of(job.code).hex())
        return lambda: replace(REPORT, answers=(answer,))


def made_of(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()


def check(code: str = "assert f(1) == 2", runtime: str = "python", shared: bool = False) -> CheckJob:
    return CheckJob("f = abs", "f", code, True, Limits(), Setting(runtime), shared=shared)


async def test_code_is_compiled_once_for_each_runtime() -> None:
    tests, lane = CompiledTests(), Lane()
    for job in (check(), replace(check(), source="f = len"), check(runtime="numpy"), check("assert f('\ud800') == 2")):
        assert await tests.of(job, lane.run) == made_of(job.code)
    assert lane.compiled == ["assert f(1) == 2"] * 2 + ["assert f('\ud800') == 2"]


async def test_other_jobs_have_none() -> None:
    tests, lane = CompiledTests(), Lane()
    for job in (check(shared=True), CallJob("f = abs", "f", ((1,),), Limits())):
        assert await tests.of(job, lane.run) == b""
    assert not lane.compiled


@pytest.mark.parametrize("answer", [Oversized(1 << 20), Raised("RecursionError", ""), Returned([1])])
async def test_what_does_not_compile_is_not_tried_again(answer: Answer) -> None:
    tests, lane = CompiledTests(), Lane(answer)
    assert [await tests.of(check(), lane.run) for _ in range(2)] == [b"", b""]
    assert len(lane.compiled) == 1


async def test_those_used_last_are_kept() -> None:
    tests, lane = CompiledTests(most_bytes=2 * 300), Lane()
    for code in "abaca":
        await tests.of(check(code), lane.run)
    assert "".join(lane.compiled) == "abc"
    await tests.of(check("b"), lane.run)
    assert "".join(lane.compiled) == "abcb"


async def test_a_lane_that_is_lost_is_the_callers_to_replace() -> None:
    async def lose(job: CompileJob) -> Callable[[], Report]:
        raise ConnectionError("lost")

    tests, lane = CompiledTests(), Lane()
    with pytest.raises(ConnectionError):
        await tests.of(check(), lose)
    assert await tests.of(check(), lane.run) == made_of(check().code)
