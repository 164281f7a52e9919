"""What runs that are over leave behind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratchet_kit.idempotency import Request
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId
from trainer_service.domain.work.retention import Retention

from ..memory import MemoryFolders, MemoryRunStore, MemorySamples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
async def store(make_complete_spec: Any) -> MemoryRunStore:
    """Three runs, each with three exports, the second the best; the first ended long ago, the second lately."""
    store = MemoryRunStore()
    for number in (1, 2, 3):
        run = Run.create(RunId(f"run_{number}"), make_complete_spec(), NOW, "")
        await store.create(run, Request.of(run.id))
        await store.change(run.id, lambda run: run.start(NOW).begin(1, NOW))
        for step, score in ((1, 0.5), (2, 0.75), (3, 0.25)):
            made = Checkpoint(step, f"/exports/{run.id}/{step}", "sha256:p", NOW, score)
            await store.record_checkpoint(run.id, made, lambda run, found: run.checkpointed(1, found, NOW))
    for number, end in ((1, NOW), (2, NOW + 9 * DAY)):
        await store.change(RunId(f"run_{number}"), lambda run, end=end: run.cancel(end, ""))  # type: ignore[misc]
    return store


async def test_the_checkpoints_of_a_run_that_ended_long_ago_go(store: MemoryRunStore) -> None:
    folders = MemoryFolders()
    folders.checkpoints = {RunId(f"run_{number}") for number in (1, 2, 3)} | {RunId("run_of_another_platform")}
    retention = Retention(store, folders, MemorySamples())
    assert await retention.remove_checkpoints(NOW + DAY) == 1
    assert folders.tidied == ["run_1"]
    assert await retention.remove_checkpoints(NOW + DAY) == 0


async def test_of_its_exports_the_best_one_stays(store: MemoryRunStore) -> None:
    folders = MemoryFolders()
    retention = Retention(store, folders, MemorySamples())
    assert await retention.remove_exports(NOW + DAY) == 2
    assert folders.removed_exports == ["/exports/run_1/1", "/exports/run_1/3"]
    assert [one.step for one in await store.checkpoints(RunId("run_1"), 9, -1)] == [2]
    assert [one.step for one in await store.checkpoints(RunId("run_2"), 9, -1)] == [1, 2, 3]
    assert await retention.remove_exports(NOW + DAY) == 0


async def test_the_samples_of_a_run_that_ended_long_ago_go(store: MemoryRunStore) -> None:
    samples = MemorySamples()
    samples.runs = {RunId(f"run_{number}") for number in (1, 2, 3)} | {RunId("run_of_another_platform")}
    retention = Retention(store, MemoryFolders(), samples)
    assert await retention.remove_samples(NOW + DAY) == 1
    assert samples.runs == {"run_2", "run_3", "run_of_another_platform"}
    assert await retention.remove_samples(NOW + DAY) == 0
