"""What uses a version: it is neither unloaded nor deleted."""

from datetime import timedelta

import pytest

from gateway_service.domain.experiments.experiment import Experiment, ExperimentSpec, Metric, State, Variant
from gateway_service.domain.experiments.replay import Replay, ReplayPrompt
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.record import Unit
from ratchet.registry.v1 import registry_pb2
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import VersionRef
from ratchet_policies import TextPrompt

from ..world import NoStub, World

VARIANTS = (Variant("control", VersionRef("starter", 1)), Variant("treatment", VersionRef("starter", 2)))


class Registry(NoStub):
    """Deletes what it is asked to."""

    def __init__(self) -> None:
        self.deleted: list[int] = []

    async def DeleteVersion(self, request: registry_pb2.DeleteVersionRequest) -> registry_pb2.DeleteVersionResponse:
        self.deleted.append(request.number)
        return registry_pb2.DeleteVersionResponse()


@pytest.fixture
async def registry(world: World) -> Registry:
    registry = Registry()
    world.stubs["ratchet.registry.v1.RegistryService"] = registry
    await world.start()
    return registry


async def roll_back(world: World) -> None:
    """A release of version 2, which lost: it is loaded still."""
    release = await world.until_progressing(await world.release())
    await world.gateway.releases.roll_back(release.id, "enough")


async def use(world: World, how: str) -> None:
    if how == "alias":
        world.registry.aliases["starter", "staging"] = 2
        return
    replay = Replay() if how == "replay" else None
    spec = ExperimentSpec(VARIANTS, Metric(Measure.ERROR_RATE), replay=replay, min_units=2, unit=Unit.REQUEST)
    prompts = [ReplayPrompt(TextPrompt("say hi"))] * 2 if replay else []
    experiment = await world.gateway.experiments.create("", spec, prompts=prompts)
    await world.gateway.experiments.start(experiment.id)
    if how == "paused":
        await world.gateway.experiments.pause(experiment.id, "")


async def experiment(world: World) -> Experiment:
    (found,) = await world.experiments.active()
    return found


USES = ["running", "paused", "replay", "alias"]


@pytest.mark.parametrize("how", USES)
async def test_a_loser_that_is_in_use_stays_loaded(world: World, how: str) -> None:
    await roll_back(world)
    await use(world, how)
    world.clock.advance(timedelta(minutes=1))
    await world.tick()
    assert await world.releases.unfinished() == []
    assert "starter@2" in world.engine.policies


@pytest.mark.parametrize("how", [*USES, "release"])
async def test_a_version_that_is_in_use_is_not_deleted(world: World, registry: Registry, how: str) -> None:
    if how == "release":
        await world.release()
    else:
        await use(world, how)
    async with world.http() as http:
        reply = await http.delete("/api/v1/models/starter/versions/2")
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "FAILED_PRECONDITION")
        assert "version starter@2 cannot be deleted" in reply.json()["error"]["message"]
        assert (await http.delete("/api/v1/models/starter/versions/3")).status_code == 200
    assert registry.deleted == [3]


async def test_a_version_of_what_has_ended_is_deleted(world: World, registry: Registry) -> None:
    await roll_back(world)
    await use(world, "running")
    await world.gateway.experiments.stop((await experiment(world)).id, "")
    async with world.http() as http:
        assert (await http.delete("/api/v1/models/starter/versions/2")).status_code == 200


async def test_an_experiment_whose_version_was_deleted_does_not_start(world: World) -> None:
    draft = await world.gateway.experiments.create("", ExperimentSpec(VARIANTS, Metric(Measure.ERROR_RATE)))
    world.registry.versions["starter"] = 1
    with pytest.raises(FailedPrecondition, match="starter@2 does not exist"):
        await world.gateway.experiments.start(draft.id)
    assert (await world.experiments.get(draft.id)).state is State.DRAFT
