"""gRPC in: unpack, call, pack."""

from collections.abc import AsyncIterator

from ratchet.registry.v1 import dataset_pb2, dataset_pb2_grpc, registry_pb2_grpc
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_kit.interceptors import actor
from ratchet_kit.names import AliasRef
from ratchet_kit.server import Context
from ratchet_kit.times import timestamp_from_proto
from registry_service import convert
from registry_service.domain.aliases import Aliases
from registry_service.domain.datasets import Datasets
from registry_service.domain.findings import Findings
from registry_service.domain.gates import Gates
from registry_service.domain.models import Models
from registry_service.domain.rewards import Rewards
from registry_service.domain.versions import Versions


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    """ratchet.registry.v1.RegistryService over the use cases."""

    def __init__(self, models: Models, versions: Versions, aliases: Aliases, gates: Gates, rewards: Rewards) -> None:
        self._models = models
        self._versions = versions
        self._aliases = aliases
        self._gates = gates
        self._rewards = rewards

    # Models

    async def CreateModel(self, request: pb.CreateModelRequest, context: Context) -> pb.CreateModelResponse:
        model = await self._models.create(request.name, request.description, request.request_id)
        return pb.CreateModelResponse(model=convert.model_to_proto(model))

    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        return pb.GetModelResponse(model=convert.model_to_proto(await self._models.get(request.name)))

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        page = (await self._models.page(request.page_size, request.page_token)).map(convert.model_to_proto)
        return pb.ListModelsResponse(models=page.items, next_page_token=page.next_page_token)

    async def DeleteModel(self, request: pb.DeleteModelRequest, context: Context) -> pb.DeleteModelResponse:
        await self._models.delete(request.name)
        return pb.DeleteModelResponse()

    # Versions

    async def CreateVersion(self, request: pb.CreateVersionRequest, context: Context) -> pb.CreateVersionResponse:
        spec = convert.version_spec_from_proto(request)
        version = await self._versions.create(
            spec,
            request.request_id,
            request.training_fingerprints,
            request.selection_fingerprints,
            [one.fingerprints for one in request.drawn_problems],
        )
        return pb.CreateVersionResponse(version=convert.version_to_proto(version))

    async def GetVersion(self, request: pb.GetVersionRequest, context: Context) -> pb.GetVersionResponse:
        version = await self._versions.get(convert.wanted_from_proto(request))
        return pb.GetVersionResponse(version=convert.version_to_proto(version))

    async def ListVersions(self, request: pb.ListVersionsRequest, context: Context) -> pb.ListVersionsResponse:
        only = convert.version_filter_from_proto(request)
        page = await self._versions.page(request.model, request.page_size, request.page_token, only)
        versions = page.map(convert.version_to_proto)
        return pb.ListVersionsResponse(versions=versions.items, next_page_token=versions.next_page_token)

    async def WatchVersion(
        self, request: pb.WatchVersionRequest, context: Context
    ) -> AsyncIterator[pb.WatchVersionResponse]:
        async for version in self._versions.watch(convert.ref_from_proto(request.model, request.number)):
            yield pb.WatchVersionResponse(version=convert.version_to_proto(version))

    async def DeleteVersion(self, request: pb.DeleteVersionRequest, context: Context) -> pb.DeleteVersionResponse:
        await self._versions.delete(convert.ref_from_proto(request.model, request.number))
        return pb.DeleteVersionResponse()

    # Aliases

    async def SetAlias(self, request: pb.SetAliasRequest, context: Context) -> pb.SetAliasResponse:
        model = await self._aliases.set(
            AliasRef(request.model, request.alias),
            request.number,
            expected=convert.expected_from_proto(request),
            reason=request.reason,
            gate_id=request.gate_id,
            actor=actor(),
            takes_back=request.takes_back,
        )
        return pb.SetAliasResponse(model=convert.model_to_proto(model))

    async def ListAliasHistory(
        self, request: pb.ListAliasHistoryRequest, context: Context
    ) -> pb.ListAliasHistoryResponse:
        page = await self._aliases.history(request.model, request.alias, request.page_size, request.page_token)
        changes = page.map(convert.change_to_proto)
        return pb.ListAliasHistoryResponse(changes=changes.items, next_page_token=changes.next_page_token)

    # Gates

    async def CreateGate(self, request: pb.CreateGateRequest, context: Context) -> pb.CreateGateResponse:
        gate = await self._gates.create(convert.gate_spec_from_proto(request), request.request_id)
        return pb.CreateGateResponse(gate=convert.gate_to_proto(gate))

    async def GetGate(self, request: pb.GetGateRequest, context: Context) -> pb.GetGateResponse:
        gate = await self._gates.get(request.id)
        return pb.GetGateResponse(gate=convert.gate_to_proto(gate, await self._gates.find_staleness(gate)))

    async def ListGates(self, request: pb.ListGatesRequest, context: Context) -> pb.ListGatesResponse:
        page = await self._gates.page(request.model, request.page_size, request.page_token)
        gates = page.map(convert.gate_to_proto)
        return pb.ListGatesResponse(gates=gates.items, next_page_token=gates.next_page_token)

    async def WatchGate(self, request: pb.WatchGateRequest, context: Context) -> AsyncIterator[pb.WatchGateResponse]:
        async for gate in self._gates.watch(request.id):
            yield pb.WatchGateResponse(gate=convert.gate_to_proto(gate))

    # Rewards

    async def CreateReward(self, request: pb.CreateRewardRequest, context: Context) -> pb.CreateRewardResponse:
        reward = await self._rewards.create(convert.reward_spec_from_proto(request), request.request_id, actor())
        return pb.CreateRewardResponse(reward=convert.reward_to_proto(reward))

    async def GetReward(self, request: pb.GetRewardRequest, context: Context) -> pb.GetRewardResponse:
        reward = await self._rewards.get(convert.wanted_reward_from_proto(request))
        return pb.GetRewardResponse(reward=convert.reward_to_proto(reward))

    async def ListRewards(self, request: pb.ListRewardsRequest, context: Context) -> pb.ListRewardsResponse:
        page = await self._rewards.page(request.name, request.page_size, request.page_token)
        rewards = page.map(convert.reward_to_proto)
        return pb.ListRewardsResponse(rewards=rewards.items, next_page_token=rewards.next_page_token)

    async def UseReward(self, request: pb.UseRewardRequest, context: Context) -> pb.UseRewardResponse:
        await self._rewards.use(convert.reward_ref_from_proto(request.name, request.number), request.run_id)
        return pb.UseRewardResponse()

    async def DeleteReward(self, request: pb.DeleteRewardRequest, context: Context) -> pb.DeleteRewardResponse:
        ref = convert.reward_ref_from_proto(request.name, request.number)
        await self._rewards.delete(ref, force=request.force)
        return pb.DeleteRewardResponse()


class DatasetServicer(dataset_pb2_grpc.DatasetServiceServicer):
    """ratchet.registry.v1.DatasetService over the use cases."""

    def __init__(self, datasets: Datasets, findings: Findings) -> None:
        self._datasets = datasets
        self._findings = findings

    async def CreateDataset(
        self, request: dataset_pb2.CreateDatasetRequest, context: Context
    ) -> dataset_pb2.CreateDatasetResponse:
        spec = convert.dataset_spec_from_proto(request)
        dataset = await self._datasets.create(spec, request.request_id, actor())
        return dataset_pb2.CreateDatasetResponse(dataset=convert.dataset_to_proto(dataset))

    async def WriteDataset(
        self, request: dataset_pb2.WriteDatasetRequest, context: Context
    ) -> dataset_pb2.WriteDatasetResponse:
        ref = convert.dataset_ref_from_proto(request.name, request.number, request.split)
        received = await self._datasets.write(ref, request.data, request.offset)
        return dataset_pb2.WriteDatasetResponse(received_bytes=received)

    async def GetDataset(
        self, request: dataset_pb2.GetDatasetRequest, context: Context
    ) -> dataset_pb2.GetDatasetResponse:
        number = request.number if request.HasField("number") else None
        dataset = await self._datasets.get(convert.dataset_ref_from_proto(request.name, number))
        return dataset_pb2.GetDatasetResponse(dataset=convert.dataset_to_proto(dataset))

    async def ListDatasets(
        self, request: dataset_pb2.ListDatasetsRequest, context: Context
    ) -> dataset_pb2.ListDatasetsResponse:
        page = await self._datasets.page(request.name, request.page_size, request.page_token)
        datasets = page.map(convert.dataset_to_proto)
        return dataset_pb2.ListDatasetsResponse(datasets=datasets.items, next_page_token=datasets.next_page_token)

    async def WatchDataset(
        self, request: dataset_pb2.WatchDatasetRequest, context: Context
    ) -> AsyncIterator[dataset_pb2.WatchDatasetResponse]:
        async for dataset in self._datasets.watch(convert.dataset_ref_from_proto(request.name, request.number)):
            yield dataset_pb2.WatchDatasetResponse(dataset=convert.dataset_to_proto(dataset))

    async def ReadDataset(
        self, request: dataset_pb2.ReadDatasetRequest, context: Context
    ) -> dataset_pb2.ReadDatasetResponse:
        ref = convert.dataset_ref_from_proto(request.name, request.number, request.split)
        return dataset_pb2.ReadDatasetResponse(data=await self._datasets.read(ref, request.offset))

    async def UseDataset(
        self, request: dataset_pb2.UseDatasetRequest, context: Context
    ) -> dataset_pb2.UseDatasetResponse:
        await self._datasets.use(convert.dataset_ref_from_proto(request.name, request.number), request.user)
        return dataset_pb2.UseDatasetResponse()

    async def ForgetUnits(
        self, request: dataset_pb2.ForgetUnitsRequest, context: Context
    ) -> dataset_pb2.ForgetUnitsResponse:
        await self._datasets.forget({one.unit: timestamp_from_proto(one.forget_time) for one in request.units})
        return dataset_pb2.ForgetUnitsResponse()

    async def DeleteDataset(
        self, request: dataset_pb2.DeleteDatasetRequest, context: Context
    ) -> dataset_pb2.DeleteDatasetResponse:
        ref = convert.dataset_ref_from_proto(request.name, request.number)
        await self._datasets.delete(ref, force=request.force)
        return dataset_pb2.DeleteDatasetResponse()

    async def ListFindings(
        self, request: dataset_pb2.ListFindingsRequest, context: Context
    ) -> dataset_pb2.ListFindingsResponse:
        ref, rule = convert.dataset_ref_from_proto(request.name, request.number), convert.rule_from_proto(request)
        state = convert.finding_state_from_proto(request)
        page = await self._findings.page(ref, rule, state, request.page_size, request.page_token)
        findings = page.map(convert.finding_to_proto)
        return dataset_pb2.ListFindingsResponse(findings=findings.items, next_page_token=findings.next_page_token)

    async def ReportUnsound(
        self, request: dataset_pb2.ReportUnsoundRequest, context: Context
    ) -> dataset_pb2.ReportUnsoundResponse:
        ref = convert.dataset_ref_from_proto(request.name, request.number, request.split)
        await self._findings.report(ref, dict(request.reasons), convert.runs_from_proto(request))
        return dataset_pb2.ReportUnsoundResponse()

    async def DecideFindings(
        self, request: dataset_pb2.DecideFindingsRequest, context: Context
    ) -> dataset_pb2.DecideFindingsResponse:
        ref, rule = convert.dataset_ref_from_proto(request.name, request.number), convert.rule_from_proto(request)
        state = convert.decided_from_proto(request)
        decided = await self._findings.decide(ref, rule, state, request.reason, actor())
        return dataset_pb2.DecideFindingsResponse(findings=decided)
