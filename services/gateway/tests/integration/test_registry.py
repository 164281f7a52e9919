"""One suite for ModelRegistry: scripted, and through gRPC. The real registry-service has its own tests."""

from collections.abc import AsyncIterator

import pytest

from gateway_service.adapters.registry import GrpcModelRegistry
from gateway_service.domain.ports import ModelRegistry
from ratchet.registry.v1.registry_pb2_grpc import RegistryServiceStub
from ratchet_kit import client
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, Unavailable
from ratchet_kit.names import VersionRef

from ..doubles import policy_id_of


@pytest.fixture(params=["scripted", "grpc"])
async def models(request, registry, peers) -> AsyncIterator[ModelRegistry]:
    if request.param == "scripted":
        yield registry
        return
    async with client.channel(peers) as channel:
        yield GrpcModelRegistry(RegistryServiceStub(channel))


class TestModelRegistry:
    async def test_models(self, models) -> None:
        assert [(model.name, model.champion) for model in await models.models()] == [
            ("other", None),
            ("starter", VersionRef("starter", 1)),
        ]
        assert (await models.model("starter")).champion == VersionRef("starter", 1)
        with pytest.raises(NotFound):
            await models.model("nobody")

    async def test_versions(self, models) -> None:
        version = await models.version(VersionRef("starter", 1))
        assert version.ref == VersionRef("starter", 1)
        assert (version.source_uri, version.policy_id) == ("starter/1", policy_id_of("starter/1"))
        with pytest.raises(NotFound):
            await models.version(VersionRef("starter", 9))

    async def test_gates(self, models) -> None:
        gate = await models.gate("gate_2")
        assert (gate.candidate, gate.champion, gate.passed) == (
            VersionRef("starter", 2),
            VersionRef("starter", 1),
            True,
        )
        with pytest.raises(NotFound):
            await models.gate("gate_9")

    async def test_takes_back(self, models, registry) -> None:
        await models.promote(VersionRef("starter", 2), VersionRef("starter", 1), "gate_2", "better")
        await models.take_back(VersionRef("starter", 2), VersionRef("starter", 1), "worse")
        assert (await models.model("starter")).champion == VersionRef("starter", 1)
        assert registry.taken_back == [VersionRef("starter", 2)]

    async def test_the_champion_before_is_read_when_the_champion_changes(self, models, registry) -> None:
        assert (await models.model("starter")).champion_before is None
        registry.before["starter"] = 1
        await models.promote(VersionRef("starter", 2), VersionRef("starter", 1), "gate_2", "better")
        assert (await models.model("starter")).champion_before == VersionRef("starter", 1)

    async def test_promotes(self, models, registry) -> None:
        await models.promote(VersionRef("starter", 2), VersionRef("starter", 1), "gate_2", "better")
        assert (await models.model("starter")).champion == VersionRef("starter", 2)
        assert registry.promotions == [(VersionRef("starter", 2), "gate_2")]
        with pytest.raises(Aborted):
            await models.promote(VersionRef("starter", 3), VersionRef("starter", 1), "gate_2", "better")
        registry.refuse_promotion = FailedPrecondition("the gate says no")
        with pytest.raises(FailedPrecondition, match="the gate says no"):
            await models.promote(VersionRef("starter", 3), VersionRef("starter", 2), "gate_2", "better")


async def test_a_version_is_known_while_the_registry_is_away_until_it_was_deleted(registry, peers) -> None:
    ref = VersionRef("starter", 3)
    async with client.channel(peers) as channel:
        models = GrpcModelRegistry(RegistryServiceStub(channel))
        known = await models.version(ref)
        registry.away = Unavailable("the registry is away")
        assert await models.version(ref) == known
        registry.away, registry.versions = None, {"starter": 2}
        with pytest.raises(NotFound):
            await models.version(ref)
        registry.away = Unavailable("the registry is away")
        with pytest.raises(Unavailable):
            await models.version(ref)
