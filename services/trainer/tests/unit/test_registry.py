"""A registry that is slow or full is away for now: nothing is wrong with the run."""

from types import SimpleNamespace

import grpc
import pytest

from ratchet_kit.errors import Unavailable
from ratchet_kit.names import VersionRef
from trainer_service.adapters.registry import GrpcModelRegistry


@pytest.mark.parametrize("code", [grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_what_may_pass_is_unavailable(code: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_request: object) -> None:
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "not now")

    async with grpc.aio.insecure_channel("localhost:1") as channel:
        registry = GrpcModelRegistry(channel)
        monkeypatch.setattr(registry, "_stub", SimpleNamespace(GetVersion=refuse))
        with pytest.raises(Unavailable, match="not now"):
            await registry.resolve(VersionRef("starter", 1))
