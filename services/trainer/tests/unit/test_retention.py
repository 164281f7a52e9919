"""What runs that are over leave behind."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratchet_kit.idempotency import Request
from ratchet_testing.clock import ManualClock
from trainer_service.domain.inputs.found import Stored
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId
from trainer_service.domain.spec.spec import ParentCheckpoint
from trainer_service.domain.work.needs import Needs
from trainer_service.domain.work.retention import Retention

from ..memory import MemoryFolders, MemoryRegistry, MemoryRunStore, MemorySamples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
GB = 1_000_000_000


@pytest.fixture
async def store(make_complete_spec: Any) -> MemoryRunStore:
    """Three runs, each with three exports, the second the best; the first ended long ago, the second lately."""
    store = MemoryRunStore()
    for number in (1, 2, 3):
        run = Run.create(RunId(f"run_{number}"), make_complete_spec(), NOW, "")
        await store.create(run, Request.of(run.id))
        await store.change(run.id, lambda run: run.start(NOW).begin(1, NOW))
        for step, score in ((1, 0.5), (2, 0.75), (3, 0.25)):
            made = Checkpoint(step, _uri(run.id, step), "sha256:p", NOW, score)
            await store.record_checkpoint(run.id, made, lambda run, found: run.checkpointed(1, found, NOW))
    for number, end in ((1, NOW), (2, NOW + 9 * DAY)):
        await store.change(RunId(f"run_{number}"), lambda run, end=end: run.cancel(end, ""))  # type: ignore[misc]
    return store


def _uri(run: str, step: int) -> str:
    return f"/exports/{run}/step-{step}-attempt-1"


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def folders() -> MemoryFolders:
    """Of each run 1 GB to go on from, and three exports of 1 GB. And of a run of another platform."""
    folders = MemoryFolders()
    for id in ("run_1", "run_2", "run_3"):
        folders.kept += [Stored(RunId(id), GB), *(Stored(RunId(id), GB, _uri(id, step)) for step in (1, 2, 3))]
    folders.kept.append(Stored(RunId("run_of_another_platform"), 99 * GB))
    return folders


@pytest.fixture
def samples() -> MemorySamples:
    return MemorySamples()


@pytest.fixture
def retention(
    store: MemoryRunStore, folders: MemoryFolders, samples: MemorySamples, registry: MemoryRegistry
) -> Retention:
    return Retention(store, folders, samples, Needs(store, registry), ManualClock())


async def test_the_checkpoints_of_a_run_that_ended_long_ago_go(retention: Retention, folders: MemoryFolders) -> None:
    folders.checkpoints = {RunId(f"run_{number}") for number in (1, 2, 3)} | {RunId("run_of_another_platform")}
    assert await retention.remove_checkpoints(NOW + DAY) == 1
    assert folders.tidied == ["run_1"]
    assert await retention.remove_checkpoints(NOW + DAY) == 0


async def test_of_its_exports_the_best_one_stays(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore
) -> None:
    assert await retention.remove_exports(NOW + DAY) == 2
    assert folders.removed_exports == [_uri("run_1", 1), _uri("run_1", 3)]
    assert [one.step for one in await store.checkpoints(RunId("run_1"), 9, -1)] == [2]
    assert [one.step for one in await store.checkpoints(RunId("run_2"), 9, -1)] == [1, 2, 3]
    assert await retention.remove_exports(NOW + DAY) == 0


async def test_an_export_that_somebody_needs_stays_however_old(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore, registry: MemoryRegistry, make_spec: Any
) -> None:
    await start_from(store, "run_1", 1, make_spec())
    registry.copied = [(RunId("run_1"), 3)]
    assert await retention.remove_exports(NOW + DAY) == 0
    await store.change(RunId("run_child"), lambda run: run.cancel(NOW, ""))
    registry.copied = []
    assert await retention.remove_exports(NOW + DAY) == 2


async def start_from(store: MemoryRunStore, parent: str, step: int, spec: Any) -> None:
    child = Run.create(RunId("run_child"), replace(spec, parent=ParentCheckpoint(parent, step)), NOW, "")
    await store.create(child, Request.of(child.id))


async def test_the_samples_of_a_run_that_ended_long_ago_go(retention: Retention, samples: MemorySamples) -> None:
    samples.runs = {RunId(f"run_{number}") for number in (1, 2, 3)} | {RunId("run_of_another_platform")}
    assert await retention.remove_samples(NOW + DAY) == 1
    assert samples.runs == {"run_2", "run_3", "run_of_another_platform"}
    assert await retention.remove_samples(NOW + DAY) == 0


async def test_within_the_bound_nothing_goes(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore
) -> None:
    await retention.bound_checkpoints(12 * GB)
    assert (folders.removed_exports, folders.tidied) == ([], [])
    assert not (await store.get(RunId("run_1"))).notices


async def test_beyond_the_bound_the_oldest_go_and_the_run_says_so(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore
) -> None:
    await retention.bound_checkpoints(9 * GB)
    assert (folders.removed_exports, folders.tidied) == ([_uri("run_1", 1), _uri("run_1", 3)], ["run_1"])
    beginning, end = "removed the model of step", "(1.00 GB), since checkpoints of all runs take more than 9.00 GB"
    assert [one.message for one in (await store.get(RunId("run_1"))).notices] == [
        f"{beginning} 1 {end}",
        f"{beginning} 3 {end}",
        f"removed what it would go on from when it is resumed: it begins at its base {end}",
    ]
    assert [one.uri for one in await store.checkpoints(RunId("run_1"), 9, -1)] == ["", _uri("run_1", 2), ""]
    await retention.bound_checkpoints(9 * GB)
    assert not (await store.get(RunId("run_2"))).notices


async def test_what_is_needed_stays_whatever_the_bound(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore, registry: MemoryRegistry, make_spec: Any
) -> None:
    """All of a run that is under way; of others the best export, and those that a run or the registry reads."""
    await start_from(store, "run_1", 1, make_spec())
    registry.copied = [(RunId("run_2"), 3)]
    await retention.bound_checkpoints(1)
    assert sorted(folders.removed_exports) == [_uri("run_1", 3), _uri("run_2", 1)]
    assert folders.tidied == ["run_1", "run_2"]


async def test_nothing_goes_while_the_registry_cannot_say_what_it_needs(
    retention: Retention, folders: MemoryFolders, registry: MemoryRegistry
) -> None:
    registry.down = True
    with pytest.raises(Exception, match="the registry is down"):
        await retention.bound_checkpoints(1)
    assert (folders.removed_exports, folders.tidied) == ([], [])


async def test_a_run_that_is_resumed_meanwhile_keeps_what_it_goes_on_from(
    retention: Retention, folders: MemoryFolders, store: MemoryRunStore, registry: MemoryRegistry
) -> None:
    async def resuming() -> Any:
        for id in ("run_1", "run_2"):
            await store.change(RunId(id), lambda run: run.resume(NOW))
        return []

    registry.copying = resuming  # type: ignore[method-assign]
    await retention.bound_checkpoints(1)
    assert (folders.removed_exports, folders.tidied) == ([], [])


async def test_exports_that_were_never_reported_go(retention: Retention, folders: MemoryFolders) -> None:
    lost = "/exports/run_1/step-9-attempt-1"
    folders.kept.append(Stored(RunId("run_1"), GB, lost))
    await retention.bound_checkpoints(12_500_000_000)
    assert folders.removed_exports == [lost]
