"""ModelSource and RewardSource on registry-service."""

import grpc

from eval_service.domain.evaluation import ResolvedModel
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_kit import refs
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, RewardRef, VersionRef
from ratchet_rewards import Registered


class GrpcModelSource:
    def __init__(self, channel: grpc.aio.Channel, places: Places) -> None:
        """`places`: where the folders of models may lie that the registry does not know."""
        self._places = places
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def resolve(self, ref: AnyModel) -> ResolvedModel:
        match ref:
            case Location(uri):
                return ResolvedModel(self._places.check(uri))
            case VersionRef(model, number):
                request = pb.GetVersionRequest(model=model, number=number)
            case AliasRef(model, alias):
                request = pb.GetVersionRequest(model=model, alias=alias)
            case BareModel(model):
                request = pb.GetVersionRequest(model=model, alias=ref.champion.alias)
        with rpc_errors():
            version = (await self._stub.GetVersion(request)).version
        name = str(refs.version_from_proto(version.ref))
        if version.state != pb.Version.STATE_READY:
            raise FailedPrecondition(f"{name} is not ready: its weights are not there")
        return ResolvedModel(version.artifact_uri, version.policy_id, version.settings_id, name)


class GrpcRewardSource:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def find(self, ref: RewardRef) -> Registered:
        with rpc_errors():
            reward = (await self._stub.GetReward(pb.GetRewardRequest(name=ref.name, number=ref.number))).reward
        return Registered(RewardRef(reward.name, reward.number), reward.source)

    async def use(self, ref: RewardRef, evaluation_id: str) -> None:
        with rpc_errors():
            await self._stub.UseReward(pb.UseRewardRequest(name=ref.name, number=ref.number or 0, run_id=evaluation_id))
