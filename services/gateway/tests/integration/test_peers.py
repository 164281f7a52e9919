"""One suite for PolicyEngine and ModelRegistry: scripted, and through gRPC. The real services have their own tests."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from gateway_service.adapters.registry import GrpcModelRegistry
from gateway_service.adapters.rollout import RolloutPolicyEngine
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.serving.generation import ChatPrompt, ChatTurn, FinishReason, Sampling, TextPrompt
from gateway_service.domain.serving.ports import PolicyEngine, PolicyState
from ratchet.registry.v1.registry_pb2_grpc import RegistryServiceStub
from ratchet.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from ratchet_kit import client
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted
from ratchet_kit.names import CHAMPION, VersionRef

from ..doubles import policy_id_of

POLICY_ID = policy_id_of("a/1")


@pytest.fixture(params=["scripted", "grpc"])
async def policies(request, engine, peers) -> AsyncIterator[PolicyEngine]:
    if request.param == "scripted":
        yield engine
        return
    async with client.channel(peers) as channel:
        yield RolloutPolicyEngine(RolloutServiceStub(channel), timedelta(seconds=10))


@pytest.fixture(params=["scripted", "grpc"])
async def models(request, registry, peers) -> AsyncIterator[ModelRegistry]:
    if request.param == "scripted":
        yield registry
        return
    async with client.channel(peers) as channel:
        yield GrpcModelRegistry(RegistryServiceStub(channel))


class TestPolicyEngine:
    async def test_loads_and_unloads(self, policies, engine) -> None:
        engine.loads_at_once = False
        assert (await policies.load("a@1", "a/1", POLICY_ID)).state is PolicyState.LOADING
        engine.finish_loading("a@1")
        ready = await policies.get("a@1")
        assert (ready.name, ready.state, ready.policy_id) == ("a@1", PolicyState.READY, POLICY_ID)
        await policies.unload("a@1")
        for call in (policies.get, policies.unload):
            with pytest.raises(NotFound):
                await call("a@1")

    async def test_says_why_it_does_not_load(self, policies, engine) -> None:
        engine.capacity = 1
        engine.refuse_sources = {"bad": "no config.json"}
        await policies.load("bad@1", "bad", "")
        failed = await policies.get("bad@1")
        assert (failed.state, failed.error) == (PolicyState.FAILED, "no config.json")
        with pytest.raises(AlreadyExists):
            await policies.load("bad@1", "bad", "")
        with pytest.raises(ResourceExhausted):
            await policies.load("a@1", "a/1", "")
        with pytest.raises(InvalidArgument):
            await policies.load("a@1", "", "")

    async def test_generates(self, policies) -> None:
        await policies.load("a@1", "a/1", POLICY_ID)
        made = await policies.generate("a@1", POLICY_ID, TextPrompt("say hi"), Sampling(n=2, logprobs=True))
        assert (made.policy_id, made.prompt_tokens) == (POLICY_ID, 2)
        assert [(choice.index, choice.text) for choice in made.choices] == [(0, "say hi"), (1, "say hi")]
        first = made.choices[0]
        assert (first.finish_reason, first.token_ids, first.log_probs) == (FinishReason.STOP, (0, 1), (-0.5, -0.5))

    async def test_streams(self, policies) -> None:
        await policies.load("a@1", "a/1", POLICY_ID)
        chat = ChatPrompt((ChatTurn("system", "be brief"), ChatTurn("user", "say hi to all")))
        deltas = [delta async for delta in policies.stream("a@1", POLICY_ID, chat, Sampling())]
        assert "".join(delta.choice.text for delta in deltas) == "say hi to all"
        assert [delta.prompt_tokens for delta in deltas] == [4, 0, 0, 0]
        assert [delta.choice.finish_reason for delta in deltas][-2:] == [FinishReason.UNFINISHED, FinishReason.STOP]

    async def test_a_stream_that_is_left_is_stopped(self, policies, engine) -> None:
        await policies.load("a@1", "a/1", POLICY_ID)
        deltas = policies.stream("a@1", POLICY_ID, TextPrompt("word " * 100_000), Sampling())
        await anext(deltas)
        await deltas.aclose()
        async with asyncio.timeout(5):
            while not engine.streams_closed:
                await asyncio.sleep(0.01)

    async def test_refuses_to_generate(self, policies) -> None:
        await policies.load("a@1", "a/1", POLICY_ID)
        for name, policy_id, text, error in (
            ("b@1", POLICY_ID, "hi", NotFound),
            ("a@1", "sha256:other", "hi", FailedPrecondition),
            ("a@1", POLICY_ID, "", InvalidArgument),
        ):
            with pytest.raises(error):
                await policies.generate(name, policy_id, TextPrompt(text), Sampling())
            with pytest.raises(error):
                async for _ in policies.stream(name, policy_id, TextPrompt(text), Sampling()):
                    pass


class TestModelRegistry:
    async def test_models(self, models) -> None:
        assert [(model.name, model.champion) for model in await models.models()] == [("other", None), ("starter", 1)]
        assert (await models.model("starter")).champion == 1
        with pytest.raises(NotFound):
            await models.model("nobody")

    async def test_versions(self, models) -> None:
        for version in (await models.version(VersionRef("starter", 1)), await models.resolve("starter", CHAMPION)):
            assert version.ref == VersionRef("starter", 1)
            assert (version.source, version.policy_id) == ("starter/1", policy_id_of("starter/1"))
        with pytest.raises(NotFound):
            await models.version(VersionRef("starter", 9))
        with pytest.raises(NotFound):
            await models.resolve("starter", "nothing")

    async def test_gates(self, models) -> None:
        gate = await models.gate("gate_2")
        assert (gate.model, gate.candidate, gate.champion, gate.passed) == ("starter", 2, 1, True)
        with pytest.raises(NotFound):
            await models.gate("gate_9")

    async def test_promotes(self, models, registry) -> None:
        await models.promote(VersionRef("starter", 2), "gate_2", "better")
        assert (await models.model("starter")).champion == 2
        assert registry.promotions == [(VersionRef("starter", 2), "gate_2")]
        registry.refuse_promotion = FailedPrecondition("the gate says no")
        with pytest.raises(FailedPrecondition, match="the gate says no"):
            await models.promote(VersionRef("starter", 3), "gate_2", "better")
