"""Versions are copied whole, once, or not at all."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.errors import FailedPrecondition, Failure, Unavailable
from registry_service.domain.version import Artifact, State, Version, VersionSpec
from registry_service.main import Queues, provision
from registry_service.settings import Settings

from ..conftest import FAST, ModelFolder, Registry, files_below, starter


async def test_a_version_holds_its_own_copy(registry: Registry, model_folder: ModelFolder) -> None:
    version = await registry.make(model_folder(), kind="sft")
    assert version.state is State.READY
    assert (version.id, version.spec.lineage.step, version.spec.labels) == ("starter@1", 5, {"kind": "sft"})
    assert version.artifact is not None
    assert Path(version.artifact.uri).is_relative_to(registry.root)
    assert version.end_time == registry.clock.now()
    assert await registry.stores.versions.uploads_before(registry.clock.advance(timedelta(days=1))) == []


async def test_what_cannot_be_copied_has_failed_and_leaves_no_files(registry: Registry, tmp_path: Path) -> None:
    version = await registry.make(tmp_path / "nowhere")
    assert version.state is State.FAILED
    assert version.failure == Failure("NOT_FOUND", f"there is no folder {tmp_path}/nowhere, or it is empty")
    assert files_below(registry.root) == []
    assert await registry.stores.versions.uploads_before(registry.clock.advance(timedelta(days=1))) == []
    with pytest.raises(FailedPrecondition, match="has no artifact: there is no folder"):
        await registry.point("mine", 1)


async def test_what_became_of_a_version_is_told(registry: Registry, model_folder: ModelFolder, tmp_path: Path) -> None:
    async with registry.working():
        await registry.make(model_folder())
        await registry.make(tmp_path / "nothing")
    assert registry.events.told == [("starter@1", "READY"), ("starter@2", "FAILED")]


async def test_what_the_queue_has_lost_is_copied_all_the_same(registry: Registry, model_folder: ModelFolder) -> None:
    version = await registry.service.versions.create(VersionSpec("starter", str(model_folder())), "")
    registry.queues.versions.flush()
    registry.clock.advance(timedelta(seconds=10))
    [ready] = await registry.settle(version)
    assert ready.state is State.READY


class Interrupted:
    """An artifact store that is in the middle of a copy until it is let go on."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.keys: list[str] = []
        self.go_on = asyncio.Event()

    def check(self, source_uri: str, field: str) -> str:
        return source_uri

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        self.keys.append(key)
        folder = self._registry.root / key
        folder.mkdir(parents=True)
        (folder / "half").write_text("x")
        await self.go_on.wait()
        return Artifact(str(folder), "s", "sha256:p", 1)

    async def delete(self, key: str) -> None:
        for file in files_below(self._registry.root / key):
            file.unlink()


def copying(registry: Registry, artifacts: Interrupted, port: int = 1):
    return provision(
        Settings(port=port, artifact_url=str(registry.root)),
        stores=registry.stores,
        queues=Queues(registry.queues.versions, registry.queues.gates, registry.queues.datasets),
        evaluations=registry.evaluations,
        events=registry.events,
        artifacts=artifacts,
        clock=registry.clock,
        timing=FAST,
    )


async def pending(registry: Registry, artifacts: Interrupted) -> Version:
    return await registry.service.versions.create(VersionSpec("starter", "/m"), "")


async def wait_for(artifacts: Interrupted) -> None:
    async with asyncio.timeout(5):
        while not artifacts.keys:
            await asyncio.sleep(0.005)


async def test_a_copy_that_was_killed_is_made_by_another_worker(registry: Registry) -> None:
    stuck, other = Interrupted(registry), Interrupted(registry)
    version = await pending(registry, stuck)
    async with copying(registry, stuck) as service:
        killed = asyncio.create_task(service.background[0](asyncio.Event()))
        await wait_for(stuck)
        # As kill -9 does, all at once: nothing is given back.
        registry.clock.advance(timedelta(minutes=1))
        registry.queues.versions.expire()
        other.go_on.set()
        async with copying(registry, other, 2) as survivor:
            stop = asyncio.Event()
            working = asyncio.create_task(survivor.background[0](stop))
            ready = [seen async for seen in survivor.versions.watch(version.ref)][-1]
            stop.set()
            await working
        assert ready.artifact is not None
        assert ready.artifact.key == other.keys[0] != stuck.keys[0]
        stuck.go_on.set()
        await asyncio.sleep(0.1)
        assert await registry.stores.versions.get(version.ref) == ready, "who lost its hold changes nothing"
        killed.cancel()
        await asyncio.wait({killed})


async def test_a_version_deleted_while_it_is_copied_is_left(registry: Registry) -> None:
    artifacts = Interrupted(registry)
    version = await pending(registry, artifacts)
    async with copying(registry, artifacts) as service:
        stop = asyncio.Event()
        working = asyncio.create_task(service.background[0](stop))
        await wait_for(artifacts)
        await service.versions.delete(version.ref)
        async with asyncio.timeout(5):
            while registry.queues.versions.leased:
                await asyncio.sleep(0.005)
        stop.set()
        await working
    assert files_below(registry.root) == []
    assert await registry.stores.versions.uploads_before(registry.clock.advance(timedelta(days=1))) == artifacts.keys
    assert await service.versions.sweep(timedelta(hours=1)) == 1


async def test_files_that_nobody_finished_are_swept(registry: Registry, model_folder: ModelFolder) -> None:
    kept = await registry.make(model_folder())
    left = registry.root / "starter" / "art_left"
    await registry.stores.versions.begin_upload("starter/art_left", registry.clock.now())
    left.mkdir()
    (left / "half").write_text("x")
    assert await registry.service.versions.sweep(timedelta(hours=1)) == 0, "it may still be under way"
    registry.clock.advance(timedelta(hours=2))
    assert await registry.service.versions.sweep(timedelta(hours=1)) == 1
    assert kept.artifact is not None
    assert all(path.is_relative_to(kept.artifact.uri) for path in files_below(registry.root))


@pytest.mark.parametrize("fault", [Unavailable("the store is away"), FailedPrecondition("no access"), KeyError("ours")])
async def test_files_that_cannot_be_removed_now_hold_up_no_others(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    abandon = registry.stores.versions.abandon_upload
    for name in ("art_1", "art_2"):
        await registry.stores.versions.begin_upload(f"starter/{name}", registry.clock.now())

    async def stuck(upload: str) -> bool:
        if upload == "starter/art_1":
            raise fault
        return await abandon(upload)

    registry.clock.advance(timedelta(hours=2))
    with monkeypatch.context() as patch:
        patch.setattr(registry.stores.versions, "abandon_upload", stuck)
        assert await registry.service.versions.sweep(timedelta(hours=1)) == 1
    assert await registry.stores.versions.uploads_before(registry.clock.now()) == ["starter/art_1"]
    assert await registry.service.versions.sweep(timedelta(hours=1)) == 1


async def test_an_answer_that_got_lost_does_not_cost_the_artifact(
    registry: Registry, model_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version was completed, but the store's answer never came: its files must stay."""
    complete = registry.stores.versions.complete

    async def completed_then_lost(*args: object) -> None:
        await complete(*args)  # type: ignore[arg-type]
        raise Unavailable("connection reset")

    monkeypatch.setattr(registry.stores.versions, "complete", completed_then_lost)
    version = await registry.make(model_folder())
    assert version.state is State.READY
    assert version.artifact is not None
    assert len(files_below(Path(version.artifact.uri))) == 2
    assert version.ref == starter(1)
