"""rollout- and registry-service over the scripted doubles: what the gateway's gRPC adapters talk to in tests."""

from collections.abc import AsyncIterator

import pytest

from gateway_service.domain.ports import GateResult, RegisteredModel, RegisteredVersion
from ratchet.common.v1 import node_pb2
from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet.rollout.v1 import rollout_pb2 as rollout
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit import refs
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.times import timestamp_to_proto
from ratchet_policies import Policy, PolicySpec, PolicyState, convert
from ratchet_testing import serving

from ..doubles import ScriptedEngine, ScriptedRegistry

STATES = {
    PolicyState.LOADING: rollout.Policy.STATE_LOADING,
    PolicyState.READY: rollout.Policy.STATE_READY,
    PolicyState.FAILED: rollout.Policy.STATE_FAILED,
    PolicyState.UNLOADING: rollout.Policy.STATE_UNLOADING,
}


class RolloutServicer(rollout_pb2_grpc.RolloutServiceServicer):
    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    async def GetNode(self, request, context):
        engines = [
            node_pb2.Node.Engine(policy=one.name, state=STATES[one.state], policy_id=one.policy_id)
            for one in await self._engine.all()
        ]
        return rollout.GetNodeResponse(node=node_pb2.Node(state=node_pb2.Node.STATE_SERVING, engines=engines))

    async def LoadPolicy(self, request, context):
        policy = await self._engine.load(PolicySpec(request.name, request.source_uri, request.expected_policy_id))
        return rollout.LoadPolicyResponse(policy=_policy(policy))

    async def GetPolicy(self, request, context):
        return rollout.GetPolicyResponse(policy=_policy(await self._engine.get(request.name)))

    async def UnloadPolicy(self, request, context):
        await self._engine.unload(request.name)
        return rollout.UnloadPolicyResponse()

    async def Generate(self, request, context):
        made = await self._engine.generate(*_arguments(request))
        return rollout.GenerateResponse(
            completions=[convert.completion_to_proto(completion) for completion in made.completions],
            policy_id=made.policy_id,
            prompt_token_ids=range(made.prompt_tokens),
            echo=convert.echo_to_proto(made.echo),
        )

    async def StreamGenerate(self, request, context):
        async for delta in self._engine.stream(*_arguments(request.request)):
            yield rollout.StreamGenerateResponse(
                delta=convert.completion_to_proto(delta.completion),
                policy_id=delta.policy_id,
                prompt_tokens=delta.prompt_tokens,
                echo=convert.echo_to_proto(delta.echo),
            )


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    def __init__(self, registry: ScriptedRegistry) -> None:
        self._registry = registry

    async def ListModels(self, request, context):
        models = [_model(model) for model in await self._registry.models()]
        start = int(request.page_token or 0)
        more = str(start + 1) if start + 1 < len(models) else ""
        return registry_pb2.ListModelsResponse(models=models[start : start + 1], next_page_token=more)

    async def GetModel(self, request, context):
        return registry_pb2.GetModelResponse(model=_model(await self._registry.model(request.name)))

    async def ListAliasHistory(self, request, context):
        champions = [self._registry.before.get(request.model, 0), self._registry.aliases[request.model, CHAMPION]]
        steps = list(zip([0, *champions], champions, strict=False))
        changes = [registry_pb2.AliasChange(from_number=one, to_number=other) for one, other in steps if other]
        return registry_pb2.ListAliasHistoryResponse(changes=reversed(changes))

    async def GetVersion(self, request, context):
        if request.WhichOneof("which") == "alias":
            found = await self._registry.resolve(request.model, request.alias)
        else:
            found = await self._registry.version(VersionRef(request.model, request.number))
        return registry_pb2.GetVersionResponse(version=_version(found))

    async def GetGate(self, request, context):
        gate = await self._registry.gate(request.id)
        message = registry_pb2.Gate(
            id=gate.id,
            state=registry_pb2.Gate.STATE_PASSED if gate.passed else registry_pb2.Gate.STATE_REFUSED,
            candidate=refs.version_to_proto(gate.candidate),
            champion=refs.version_to_proto(gate.champion),
            reason=gate.reason,
        )
        return registry_pb2.GetGateResponse(gate=message)

    async def SetAlias(self, request, context):
        assert request.alias == CHAMPION
        ref, replaced = (VersionRef(request.model, number) for number in (request.number, request.expected_number))
        if request.takes_back:
            await self._registry.take_back(replaced, ref, request.reason)
        else:
            await self._registry.promote(ref, replaced, request.gate_id, request.reason)
        return registry_pb2.SetAliasResponse(model=_model(await self._registry.model(request.model)))


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def registry() -> ScriptedRegistry:
    """Model "starter" with versions 1 to 3, of which 1 is the champion; gate "gate_2" lets 2 replace it."""
    gate = GateResult("gate_2", VersionRef("starter", 2), VersionRef("starter", 1), True, "0.2 better")
    return ScriptedRegistry({"other": 1, "starter": 3}, {("starter", CHAMPION): 1}, {gate.id: gate})


@pytest.fixture
async def peers(engine: ScriptedEngine, registry: ScriptedRegistry) -> AsyncIterator[str]:
    """The address of both services."""

    def add(server):
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(RolloutServicer(engine), server)
        registry_pb2_grpc.add_RegistryServiceServicer_to_server(RegistryServicer(registry), server)
        return ["ratchet.rollout.v1.RolloutService", "ratchet.registry.v1.RegistryService"]

    async with serving(add) as target:
        yield target


def _arguments(request):
    prompt, sampling = convert.prompt_from_proto(request.prompt), convert.sampling_from_proto(request.sampling)
    return request.policy, request.expected_policy_id, prompt, sampling


def _policy(policy: Policy) -> rollout.Policy:
    failure = failure_to_proto(policy.failure)
    return rollout.Policy(name=policy.name, state=STATES[policy.state], policy_id=policy.policy_id, failure=failure)


def _model(model: RegisteredModel) -> registry_pb2.Model:
    aliases = {} if model.champion is None else {CHAMPION: model.champion.number}
    return registry_pb2.Model(name=model.name, aliases=aliases, create_time=timestamp_to_proto(model.create_time))


def _version(version: RegisteredVersion) -> registry_pb2.Version:
    return registry_pb2.Version(
        ref=refs.version_to_proto(version.ref),
        state=registry_pb2.Version.STATE_READY,
        artifact_uri=version.source_uri,
        policy_id=version.policy_id,
        create_time=timestamp_to_proto(version.create_time),
    )
