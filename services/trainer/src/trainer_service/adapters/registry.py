"""ModelRegistry, VersionRegistry and RewardRegistry by registry-service."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import grpc

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_kit import refs
from ratchet_kit.errors import Aborted, DeadlineExceeded, NotFound, ResourceExhausted, Unavailable
from ratchet_kit.grpc_errors import failure_from_proto, rpc_errors
from ratchet_kit.names import AliasRef, BareModel, RewardRef, VersionRef
from ratchet_rewards import Registered
from trainer_service.domain.inputs.found import FoundModel
from trainer_service.domain.run.run import RunId
from trainer_service.domain.work.ports import (
    Lineage,
    MirroredModel,
    MirroredVersion,
    MirroredVersions,
    RegisteredVersion,
    VersionState,
)

PAGE = 500
_STATES = {
    pb.Version.STATE_PENDING: VersionState.PENDING,
    pb.Version.STATE_READY: VersionState.READY,
    pb.Version.STATE_FAILED: VersionState.FAILED,
}


class GrpcModelRegistry:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def resolve(self, ref: VersionRef | AliasRef | BareModel) -> FoundModel:
        with _errors():
            version = (await self._stub.GetVersion(_request(ref))).version
        if version.state != pb.Version.STATE_READY:
            raise NotFound(f"{ref} is not ready: the registry has no artifact of it")
        return FoundModel(refs.version_from_proto(version.ref), version.artifact_uri)

    async def register(self, request_id: str, model: str, source_uri: str, lineage: Lineage) -> RegisteredVersion:
        request = pb.CreateVersionRequest(
            request_id=request_id,
            model=model,
            source_uri=source_uri,
            lineage=pb.Lineage(
                base=refs.model_to_proto(lineage.base),
                run_id=lineage.run_id,
                data_digest=lineage.data_digest,
                config_digest=lineage.config_digest,
                code_version=lineage.code_version,
                step=lineage.step,
                selection_digest=lineage.selection_digest,
                system=lineage.system,
            ),
            labels=lineage.labels,
            training_fingerprints=lineage.training_fingerprints,
            selection_fingerprints=lineage.selection_fingerprints,
            drawn_problems=[
                pb.ProblemFingerprints(digest=digest, fingerprints=prints) for digest, prints in lineage.drawn.items()
            ],
        )
        with _errors():
            version = (await self._stub.CreateVersion(request)).version
        failure = failure_from_proto(version.failure) if version.HasField("failure") else None
        return RegisteredVersion(refs.version_from_proto(version.ref), _STATES[version.state], failure)

    async def copying(self) -> Sequence[tuple[RunId, int]]:
        found, token = list[tuple[RunId, int]](), ""
        while True:
            request = pb.ListVersionsRequest(
                model="-", page_size=PAGE, page_token=token, state=pb.Version.STATE_PENDING
            )
            with _errors():
                page = await self._stub.ListVersions(request)
            found += [(RunId(one.lineage.run_id), one.lineage.step) for one in page.versions if one.lineage.run_id]
            if not (token := page.next_page_token):
                return found


class GrpcCatalogue:
    """Catalogue by registry-service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def models(self) -> Sequence[MirroredModel]:
        found, token = list[pb.Model](), ""
        while True:
            with _errors():
                page = await self._stub.ListModels(pb.ListModelsRequest(page_size=PAGE, page_token=token))
            found += page.models
            if not (token := page.next_page_token):
                break
        return [MirroredModel(one.name, one.description, dict(one.aliases), one.latest_version) for one in found]

    async def versions(self, model: str) -> MirroredVersions:
        found, token = list[pb.Version](), ""
        while True:
            request = pb.ListVersionsRequest(model=model, page_size=PAGE, page_token=token)
            with _errors():
                page = await self._stub.ListVersions(request)
            found += page.versions
            if not (token := page.next_page_token):
                break
        ready = [
            MirroredVersion(one.ref.number, one.artifact_uri, one.policy_id, one.lineage.run_id)
            for one in found
            if one.state == pb.Version.STATE_READY
        ]
        settled = all(one.state != pb.Version.STATE_PENDING for one in found)
        return MirroredVersions(sorted(ready, key=lambda one: one.number), settled)


class GrpcRewardRegistry:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = registry_pb2_grpc.RegistryServiceStub(channel)

    async def find(self, ref: RewardRef) -> Registered:
        with _errors():
            reward = (await self._stub.GetReward(pb.GetRewardRequest(name=ref.name, number=ref.number))).reward
        return Registered(RewardRef(reward.name, reward.number), reward.source)

    async def use(self, ref: RewardRef, id: RunId) -> None:
        with _errors():
            await self._stub.UseReward(pb.UseRewardRequest(name=ref.name, number=ref.number or 0, run_id=id))


@contextmanager
def _errors() -> Iterator[None]:
    try:
        with rpc_errors():
            yield
    except (Aborted, DeadlineExceeded, ResourceExhausted) as error:  # the same request may pass later
        raise Unavailable(f"the registry is busy: {error.message}") from error


def _request(ref: VersionRef | AliasRef | BareModel) -> pb.GetVersionRequest:
    match ref:
        case VersionRef(model, number):
            return pb.GetVersionRequest(model=model, number=number)
        case AliasRef(model, alias):
            return pb.GetVersionRequest(model=model, alias=alias)
        case BareModel():
            return _request(ref.champion)
