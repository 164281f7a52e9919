"""All services as both doors call them: each caller reaches what is its project's, and changes are in the audit log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from gateway_service.audited import Audited
from gateway_service.domain.keys.audit import AuditLog
from gateway_service.domain.keys.quotas import Quotas
from gateway_service.scoped import Scoped
from gateway_service.servicer import (
    ExperimentServicer,
    GatewayServicer,
    KeyServicer,
    PlatformServicer,
    ReleaseServicer,
    TrafficServicer,
    WebhookServicer,
    WorkflowServicer,
)
from ratchet.gateway.v1 import (
    experiment_pb2_grpc,
    gateway_pb2_grpc,
    key_pb2_grpc,
    platform_pb2_grpc,
    release_pb2_grpc,
    traffic_pb2_grpc,
    webhook_pb2_grpc,
    workflow_pb2_grpc,
)

ADDING: Mapping[str, Callable[[Any, grpc.aio.Server], None]] = {
    "ratchet.gateway.v1.GatewayService": gateway_pb2_grpc.add_GatewayServiceServicer_to_server,
    "ratchet.gateway.v1.ReleaseService": release_pb2_grpc.add_ReleaseServiceServicer_to_server,
    "ratchet.gateway.v1.ExperimentService": experiment_pb2_grpc.add_ExperimentServiceServicer_to_server,
    "ratchet.gateway.v1.KeyService": key_pb2_grpc.add_KeyServiceServicer_to_server,
    "ratchet.gateway.v1.PlatformService": platform_pb2_grpc.add_PlatformServiceServicer_to_server,
    "ratchet.gateway.v1.TrafficService": traffic_pb2_grpc.add_TrafficServiceServicer_to_server,
    "ratchet.gateway.v1.WebhookService": webhook_pb2_grpc.add_WebhookServiceServicer_to_server,
    "ratchet.gateway.v1.WorkflowService": workflow_pb2_grpc.add_WorkflowServiceServicer_to_server,
}


@dataclass(frozen=True, slots=True)
class Servicers:
    """The gateway's own."""

    gateway: GatewayServicer
    releases: ReleaseServicer
    experiments: ExperimentServicer
    keys: KeyServicer
    platform: PlatformServicer
    traffic: TrafficServicer
    webhooks: WebhookServicer
    workflows: WorkflowServicer
    audit: AuditLog
    quotas: Quotas

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""
        backends = self.backends
        for service, add in ADDING.items():
            add(backends[service], grpc_server)
        return list(backends)

    @property
    def backends(self) -> Mapping[str, object]:
        """By their full names; REST calls them in this process."""
        own = (
            self.gateway,
            self.releases,
            self.experiments,
            self.keys,
            self.platform,
            self.traffic,
            self.webhooks,
            self.workflows,
        )
        return guarded(dict(zip(ADDING, own, strict=True)), self.quotas, self.audit)


def guarded(backends: Mapping[str, object], quotas: Quotas, audit: AuditLog) -> Mapping[str, object]:
    """`backends`: servicers or stubs, by the full names of their services."""
    return {name: Audited(Scoped(one, name, quotas), name, audit) for name, one in backends.items()}
