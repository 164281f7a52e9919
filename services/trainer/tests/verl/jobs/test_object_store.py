"""Runs whose checkpoints lie on an S3 server: a lost disk and a killed server cost nothing. Minutes."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.storage import Folder
from ratchet_testing.ports import free_port
from ratchet_testing.s3_server import BUCKET, s3_server

from .world import LIGHT, PATIENCE, RUNS_JOBS, World

pytestmark = RUNS_JOBS


class Store:
    """An S3 server that can be killed, and comes back with what it had stored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._port = free_port()
        self._running = ExitStack()

    def start(self) -> dict[str, str]:
        return self._running.enter_context(s3_server(self._folder, self._port))

    def kill(self) -> None:
        self._running.close()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("PATH", f"{LIGHT.parent}:{os.environ['PATH']}")  # of the server's program
    store = Store(tmp_path / "s3")
    for name, value in store.start().items():
        monkeypatch.setenv(name, value)
    yield store
    store.kill()


@pytest.mark.timeout(900)  # three jobs
async def test_a_run_goes_on_from_the_checkpoint_in_the_store_alone(world: World, run_spec: Any, store: Store) -> None:
    spec, reports = run_spec(), world.reports
    uri = f"s3://{BUCKET}/lost"
    first = world.job(spec, export_uri=uri)
    await world.kill(first, after=3)
    shutil.rmtree(first.work_dir)
    await world.finish(world.job(spec, export_uri=uri))
    assert reports.attempts() == [1, 1, 2, 2]  # from the checkpoint of step 2
    assert [one.uri for _, one in sorted(reports.checkpoints.items())] == [
        f"{uri}/step-2-attempt-1",
        f"{uri}/step-4-attempt-2",
    ]
    assert stored(f"{uri}/checkpoints") == {"attempt-2-step-4"}

    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # it waits for a client's patience
async def test_a_store_that_is_killed_amid_a_save_is_waited_for(world: World, run_spec: Any, store: Store) -> None:
    reports, uri = world.reports, f"s3://{BUCKET}/run"
    async with world.running(world.job(run_spec("sft"), export_uri=uri)) as job:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not await asyncio.to_thread(Folder(uri).names):
                assert job.returncode is None
        store.kill()
        await reports.until(job, lambda now: bool(now.waits))
        await asyncio.to_thread(store.start)
        await reports.until(job, lambda now: now.ending is not None)
    assert (reports.ending, reports.attempts()) == ("", [1] * 4)
    [said] = reports.waits
    assert uri in said
    assert "cannot be reached" in said
    assert stored(uri) == {"checkpoints", "step-2-attempt-1", "step-4-attempt-1"}
    assert stored(f"{uri}/checkpoints") == {"attempt-1-step-4"}


def stored(uri: str) -> set[str]:
    """Folders below it that have a file: the server keeps empty ones for a while."""
    return {name.partition("/")[0] for name in Folder(uri).sizes()}
