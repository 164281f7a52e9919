"""HealthCheck through gRPC: a service that works, one that does not, and none."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from gateway_service.adapters.health import GrpcHealthCheck
from gateway_service.domain.platform import State
from ratchet_kit import client
from ratchet_testing import free_port

pytestmark = pytest.mark.integration


async def test_what_a_service_says(peers) -> None:
    async with client.channel(peers) as channel:
        found = await GrpcHealthCheck(channel).check()
    assert (found.state, found.detail) == (State.SERVING, "")
    assert found.latency is not None


async def test_one_that_cannot_work_and_one_that_is_gone() -> None:
    server = grpc.aio.server()
    servicer = health.HealthServicer()
    await servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = free_port()
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    async with client.channel(f"127.0.0.1:{port}") as channel:
        found = await GrpcHealthCheck(channel).check()
        assert (found.state, found.detail) == (State.NOT_SERVING, "it says NOT_SERVING")
        await server.stop(None)
        gone = await GrpcHealthCheck(channel).check()
    assert (gone.state, gone.latency) == (State.AWAY, None)
    assert gone.detail.startswith(("UNAVAILABLE", "DEADLINE_EXCEEDED"))
