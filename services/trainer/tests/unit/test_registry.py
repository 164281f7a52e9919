"""A registry that is slow or full is away for now: nothing is wrong with the run."""

from types import SimpleNamespace

import grpc
import pytest

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_kit.errors import Unavailable
from ratchet_kit.names import RewardRef, VersionRef
from ratchet_rewards import Registered
from trainer_service.adapters.registry import GrpcModelRegistry, GrpcRewardRegistry
from trainer_service.domain.run.run import RunId


@pytest.mark.parametrize("code", [grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_what_may_pass_is_unavailable(code: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_request: object) -> None:
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "not now")

    async with grpc.aio.insecure_channel("localhost:1") as channel:
        registry = GrpcModelRegistry(channel)
        monkeypatch.setattr(registry, "_stub", SimpleNamespace(GetVersion=refuse))
        with pytest.raises(Unavailable, match="not now"):
            await registry.resolve(VersionRef("starter", 1))


async def test_what_it_copies_is_known_by_run_and_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs: a folder that somebody added is of none."""
    pages = {
        "": pb.ListVersionsResponse(versions=[{"lineage": {"run_id": "run_1", "step": 3}}], next_page_token="2"),
        "2": pb.ListVersionsResponse(versions=[{}, {"lineage": {"run_id": "run_2"}}]),
    }

    async def list_versions(request: pb.ListVersionsRequest) -> pb.ListVersionsResponse:
        assert (request.model, request.state) == ("-", pb.Version.STATE_PENDING)
        return pages[request.page_token]

    async with grpc.aio.insecure_channel("localhost:1") as channel:
        registry = GrpcModelRegistry(channel)
        monkeypatch.setattr(registry, "_stub", SimpleNamespace(ListVersions=list_versions))
        assert await registry.copying() == [("run_1", 3), ("run_2", 0)]


async def test_rewards_are_found_and_their_uses_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []

    async def get(request: pb.GetRewardRequest) -> pb.GetRewardResponse:
        sent.append(request)
        return pb.GetRewardResponse(reward=pb.Reward(name="brevity", number=2, source="print([1])"))

    async def use(request: pb.UseRewardRequest) -> pb.UseRewardResponse:
        sent.append(request)
        return pb.UseRewardResponse()

    async with grpc.aio.insecure_channel("localhost:1") as channel:
        rewards = GrpcRewardRegistry(channel)
        monkeypatch.setattr(rewards, "_stub", SimpleNamespace(GetReward=get, UseReward=use))
        newest = Registered(RewardRef("brevity", 2), "print([1])")
        assert await rewards.find(RewardRef("brevity")) == newest == await rewards.find(RewardRef("brevity", 2))
        await rewards.use(newest.ref, RunId("run_1"))
    assert sent == [
        pb.GetRewardRequest(name="brevity"),
        pb.GetRewardRequest(name="brevity", number=2),
        pb.UseRewardRequest(name="brevity", number=2, run_id="run_1"),
    ]
