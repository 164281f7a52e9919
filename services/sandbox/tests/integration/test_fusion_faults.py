"""Faults at the door for SandboxFusion's users: of the caller, and of the platform."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
import sandbox_fusion

from ratchet_kit.errors import Unavailable
from sandbox_service.domain.jobs import End, Job, Report, ScriptJob, Stage

from ..doubles import ScriptedExecutor
from .test_fusion import DoorOver, endpoint, rows, run, url

__all__ = ["endpoint", "rows", "url"]

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"code": None}, ["code"]),
        ({"language": "cobol"}, ["language"]),
        ({"run_timeout": 1e9}, ["run_timeout"]),
        ({"run_timeout": 0}, ["run_timeout"]),
        ({"memory_limit_MB": 10**9}, ["memory_limit_MB"]),
        ({"code": "#" * (2 << 20)}, ["code"]),
        ({"stdin": "x" * (17 << 20)}, ["stdin"]),
        ({"files": {"a": "*"}}, ["files", "a"]),
    ],
)
def test_the_field_at_fault_is_named(url: str, change: dict[str, Any], field: list[str]) -> None:
    answer = httpx.post(f"{url}/run_code", json={"code": "1", "language": "python", **change})
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", *field])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b'{"code": "\xff", "language": "python"}',
        rb'{"code": "\ud800", "language": "python"}',
        rb'{"code": "1", "language": "python", "files": {"\ud800": "AAAA"}}',
        b'{"code": "1", "language": "python", "run_timeout": NaN}',
        b'{"code": "1", "language": "python", "run_timeout": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
        rb'{"dataset": "mbpp", "id": "\ud800", "completion": "", "config": {}}',
        rb'{"dataset": "mbpp", "id": 1, "completion": "x", "config": {"provided_data": {"labels": {}, "\ud800": 1}}}',
    ],
)
def test_what_is_no_request_is_the_callers_fault(url: str, body: bytes) -> None:
    for path in ("/run_code", "/submit"):
        answer = httpx.post(f"{url}{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 404, 422), answer.text
        assert answer.json()["detail"]


def test_a_body_beyond_every_measure(url: str) -> None:
    huge = b'{"code": "' + b"x" * (33 << 20) + b'", "language": "python"}'
    answer = httpx.post(f"{url}/run_code", content=huge, headers={"content-type": "application/json"}, timeout=30)
    assert answer.status_code == 413


def test_a_fault_of_the_platform_is_waited_out(door_over: DoorOver) -> None:
    """The lane is away twice: the caller sees nothing of it."""
    left = [None] * 5

    async def script(job: Job) -> Report:
        if left:
            left.pop()
            raise Unavailable("away")
        return _done()

    with door_over(ScriptedExecutor(script)) as url:
        sandbox_fusion.set_endpoint(url)
        assert run("print(1)").run_result.stdout == "1\n"


def test_a_fault_that_stays_is_504_and_never_a_verdict(monkeypatch: pytest.MonkeyPatch, door_over: DoorOver) -> None:
    monkeypatch.setattr("sandbox_service.fusion.running.PATIENCE", timedelta(seconds=0))

    async def script(job: Job) -> Report:
        raise Unavailable("away")

    with door_over(ScriptedExecutor(script)) as url:
        body = {"code": "1", "language": "python", "run_timeout": 0.3, "compile_timeout": 0.3}
        answer = httpx.post(f"{url}/run_code", json=body)
        assert (answer.status_code, answer.headers["retry-after"]) == (504, "1")
        row = {"labels": {}, "test_list": ["assert f() == 1"]}
        config = {"provided_data": row, "run_timeout": 0.3}
        body = {"dataset": "mbpp", "id": 1, "completion": "def f(): return 1", "config": config}
        assert httpx.post(f"{url}/submit", json=body).status_code == 504


def test_too_many_callers_are_sent_away(door_over: DoorOver) -> None:
    async def script(job: Job) -> Report:
        await asyncio.sleep(2)
        return _done()

    async def ask(url: str) -> list[int]:
        body = {"code": "1", "language": "python"}
        async with httpx.AsyncClient(timeout=30) as client:
            answers = await asyncio.gather(*(client.post(f"{url}/run_code", json=body) for _ in range(5)))
        return sorted(answer.status_code for answer in answers)

    with door_over(ScriptedExecutor(script), most_waiting=3) as url:
        assert asyncio.run(ask(url)) == [200, 200, 200, 504, 504]


def test_a_caller_that_goes_takes_its_program_along(door_over: DoorOver) -> None:
    ended: list[str] = []

    async def script(job: Job) -> Report:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return _done()

    executor = ScriptedExecutor(script)
    with door_over(executor) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/run_code", json={"code": "1", "language": "python"}, timeout=0.5)
        for _ in range(50):
            if ended:
                break
            asyncio.run(asyncio.sleep(0.1))
    assert ended == ["cancelled"]
    assert isinstance(executor.jobs[0], ScriptJob)


def _done() -> Report:
    return Report(End.EXITED, 0, Stage.ENDED, timedelta(), timedelta(), "scripted", stdout="1\n")
