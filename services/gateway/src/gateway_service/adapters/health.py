"""HealthCheck: gRPC's own health service (https://grpc.io/docs/guides/health-checking/), which every service has."""

import time
from datetime import timedelta

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway_service.domain.platform import Health, State

PATIENCE = timedelta(seconds=2)


class GrpcHealthCheck:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = health_pb2_grpc.HealthStub(channel)

    async def check(self) -> Health:
        start = time.perf_counter()
        try:
            reply = await self._stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE.total_seconds())
        except grpc.aio.AioRpcError as error:
            return Health(State.AWAY, detail=f"{error.code().name}: {error.details()}")
        latency = timedelta(seconds=time.perf_counter() - start)
        if reply.status == health_pb2.HealthCheckResponse.SERVING:
            return Health(State.SERVING, latency)
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
        return Health(State.NOT_SERVING, latency, f"it says {status}")
