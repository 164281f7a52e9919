"""The registry service, through gRPC: as the domain's ModelRegistry, and as users reach it at /api/v1."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway_service.domain.champions import champion_before
from gateway_service.domain.ports import GateResult, RegisteredModel, RegisteredVersion
from gateway_service.domain.releases.under_way import Uses
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.times import timestamp_from_proto

if TYPE_CHECKING:
    from ratchet.registry.v1.registry_pb2_grpc import RegistryServiceAsyncStub

PAGE = 500


class GrpcModelRegistry:
    """A version that is ready is immutable: while the registry is away, one that was fetched before is as it was."""

    def __init__(self, stub: "RegistryServiceAsyncStub") -> None:
        self._stub = stub
        self._versions: dict[VersionRef, RegisteredVersion] = {}
        self._before: dict[str, tuple[int, int | None]] = {}
        """The champion of each model, and the one before it."""

    async def models(self) -> Sequence[RegisteredModel]:
        found: list[RegisteredModel] = []
        token = ""
        while True:
            with rpc_errors():
                page = await self._stub.ListModels(pb.ListModelsRequest(page_size=PAGE, page_token=token))
            found.extend(_model(model) for model in page.models)
            token = page.next_page_token
            if not token:
                return found

    async def model(self, name: str) -> RegisteredModel:
        with rpc_errors():
            model = _model((await self._stub.GetModel(pb.GetModelRequest(name=name))).model)
            if model.champion is None:
                return model
            before = await self._champion_before(model.champion)
        return model if before is None else replace(model, champion_before=VersionRef(name, before))

    async def _champion_before(self, champion: VersionRef) -> int | None:
        """Asks for the history where the champion is another than at the last look."""
        known = self._before.get(champion.model)
        if known is None or known[0] != champion.number:
            request = pb.ListAliasHistoryRequest(model=champion.model, alias=CHAMPION, page_size=PAGE)
            changes = (await self._stub.ListAliasHistory(request)).changes
            numbers = [change.from_number for change in changes[-1:]]
            numbers += [change.to_number for change in reversed(changes)]
            known = self._before[champion.model] = champion.number, champion_before([n for n in numbers if n])
        return known[1]

    async def version(self, ref: VersionRef) -> RegisteredVersion:
        request = pb.GetVersionRequest(model=ref.model, number=ref.number)
        try:
            with rpc_errors():
                self._versions[ref] = _version((await self._stub.GetVersion(request)).version)
        except TRANSIENT:
            if ref not in self._versions:
                raise
        except NotFound:
            self._versions.pop(ref, None)
            raise
        return self._versions[ref]

    async def gate(self, gate_id: str) -> GateResult:
        with rpc_errors():
            gate = (await self._stub.GetGate(pb.GetGateRequest(id=gate_id))).gate
        return GateResult(
            id=gate.id,
            candidate=refs.version_from_proto(gate.candidate),
            champion=refs.version_from_proto(gate.champion),
            passed=gate.state == pb.Gate.STATE_PASSED and not gate.stale,
            reason=gate.stale or gate.reason or gate.failure.message or "it is not decided yet",
        )

    async def promote(self, ref: VersionRef, replaced: VersionRef, gate_id: str, reason: str) -> None:
        request = pb.SetAliasRequest(
            model=ref.model,
            alias=CHAMPION,
            number=ref.number,
            expected_number=replaced.number,
            reason=reason,
            gate_id=gate_id,
        )
        with rpc_errors():
            await self._stub.SetAlias(request)

    async def take_back(self, ref: VersionRef, returning: VersionRef, reason: str) -> None:
        request = pb.SetAliasRequest(
            model=ref.model,
            alias=CHAMPION,
            number=returning.number,
            expected_number=ref.number,
            reason=reason,
            takes_back=True,
        )
        with rpc_errors():
            await self._stub.SetAlias(request)


class GuardedRegistry:
    """The registry's stub, for users: a version is deleted where no release and no experiment uses it."""

    def __init__(self, stub: Any, uses: Uses) -> None:
        self._stub = stub
        self._uses = uses

    def __getattr__(self, method: str) -> Any:
        return getattr(self._stub, method)

    async def DeleteVersion(self, request: pb.DeleteVersionRequest) -> pb.DeleteVersionResponse:
        await self._uses.check_deletable(VersionRef(request.model, request.number))
        reply: pb.DeleteVersionResponse = await self._stub.DeleteVersion(request)
        return reply


def _model(message: pb.Model) -> RegisteredModel:
    number = message.aliases.get(CHAMPION)
    champion = VersionRef(message.name, number) if number else None
    return RegisteredModel(message.name, timestamp_from_proto(message.create_time), champion, dict(message.aliases))


def _version(message: pb.Version) -> RegisteredVersion:
    ref = refs.version_from_proto(message.ref)
    if message.state != pb.Version.STATE_READY:
        reason = message.failure.message or "its artifact is being copied"
        raise FailedPrecondition(f"version {ref} is not ready: {reason}")
    return RegisteredVersion(
        ref=ref,
        source_uri=message.artifact_uri,
        policy_id=message.policy_id,
        create_time=timestamp_from_proto(message.create_time),
    )
