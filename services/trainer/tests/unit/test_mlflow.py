"""What the tracker "mlflow" makes of a server that is not there, hangs or refuses. A real one: tests/tracking."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ratchet_kit.errors import FailedPrecondition, NotFound, Unavailable
from ratchet_testing.clock import ManualClock
from ratchet_testing.ports import free_port
from trainer_service.adapters.mlflow import Credentials, Mlflow
from trainer_service.domain.run.run import Run, RunId, Step
from trainer_service.domain.work.ports import Shown

SECRET = "p4ss"


@pytest.fixture
def shown(clock: ManualClock, make_complete_spec: Any) -> Shown:
    run = Run.create(RunId("run_1"), make_complete_spec(display_name="mine"), clock.now())
    steps = [Step(number, {"reward_mean": 0.5}, "sha256:w", clock.now(), 1) for number in (1, 2)]
    return Shown(run, steps, [], {"config/attempt-1.yaml": b"a: 1"})


async def test_a_closed_port_is_said_at_once(shown: Shown) -> None:
    port = free_port()
    tracker = Mlflow(f"http://user:{SECRET}@127.0.0.1:{port}")
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} cannot be reached") as raised:
        await tracker.show(shown, "")
    assert SECRET not in raised.value.message
    await tracker.close()


async def test_a_server_that_hangs_costs_its_time_and_no_more(shown: Shown) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    tracker = Mlflow(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=0.3)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="ReadTimeout"):
        await tracker.show(shown, "")
    assert time.monotonic() - began < 10
    await tracker.close()
    server.close()


Answer = Callable[[httpx.Request], httpx.Response]


def _tracker(answer: Answer, **credentials: str) -> Mlflow:
    return Mlflow("http://mlflow:5000", Credentials(**credentials), transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (401, FailedPrecondition), (429, Unavailable), (503, Unavailable)]
)
async def test_what_a_server_refuses_has_its_reason(shown: Shown, status: int, kind: type[Exception]) -> None:
    tracker = _tracker(lambda request: httpx.Response(status, json={"error_code": "X", "message": "the reason"}))
    with pytest.raises(kind, match=f"MLflow at mlflow:5000 says {status}: the reason"):
        await tracker.show(shown, "abc")


async def test_a_server_that_is_no_mlflow_is_said(shown: Shown) -> None:
    with pytest.raises(Unavailable, match="mlflow:5000 does not answer as MLflow does"):
        await _tracker(lambda request: httpx.Response(200, text="<html>hello")).show(shown, "")


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        ({"token": SECRET}, f"Bearer {SECRET}"),
        ({"username": "me", "password": SECRET}, "Basic bWU6cDRzcw=="),
        ({}, None),
    ],
)
async def test_credentials_go_with_each_call(shown: Shown, credentials: dict[str, str], header: str | None) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(503)

    with pytest.raises(Unavailable):
        await _tracker(answer, **credentials).show(shown, "")
    assert seen == [header]


async def test_a_run_that_was_made_and_not_heard_of_is_found_again(shown: Shown) -> None:
    posted: list[tuple[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/2.0/")
        posted.append((path, json.loads(request.content) if request.method == "POST" else None))
        info = {"run_id": "abc", "artifact_uri": "mlflow-artifacts:/1/abc/artifacts"}
        answers = {
            "mlflow/experiments/get-by-name": {"experiment": {"experiment_id": "1"}},
            "mlflow/runs/search": {"runs": [{"info": info}]},
            "mlflow/runs/get": {"run": {"info": info}},
        }
        return httpx.Response(200, json=answers.get(path, {}))

    tracker = _tracker(answer)
    assert await tracker.show(shown, "") == "abc"
    paths = [path for path, _ in posted]
    assert "mlflow/runs/create" not in paths
    assert "mlflow-artifacts/artifacts/1/abc/artifacts/config/attempt-1.yaml" in paths
    metrics = [one for path, body in posted if path == "mlflow/runs/log-batch" for one in body.get("metrics", ())]
    assert [(one["key"], one["step"], one["value"]) for one in metrics] == [
        ("reward_mean", 1, 0.5),
        ("reward_mean", 2, 0.5),
    ]
    posted.clear()
    assert await tracker.show(shown, "abc") == "abc"
    assert "mlflow-artifacts/artifacts/1/abc/artifacts/config/attempt-1.yaml" not in [path for path, _ in posted]
