"""Every RPC of every service of a real platform, to a stranger: without the services' token nothing answers."""

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ratchet.eval.v1 import eval_pb2, preference_pb2  # noqa: F401 - the pool knows what was imported
from ratchet.gateway.v1 import experiment_pb2, gateway_pb2, key_pb2, platform_pb2, release_pb2  # noqa: F401
from ratchet.registry.v1 import registry_pb2  # noqa: F401
from ratchet.rollout.v1 import rollout_pb2  # noqa: F401
from ratchet.sandbox.v1 import batch_pb2, diagnostics_pb2, program_pb2, workspace_pb2  # noqa: F401
from ratchet.trainer.v1 import job_report_pb2, trainer_pb2  # noqa: F401
from ratchet_protos.access import TOKEN_HEADER

from .conftest import Platform

pytestmark = pytest.mark.e2e
SERVICES = ["gateway", "trainer", "rollout", "sandbox", "eval", "registry"]
OPEN = ("grpc.health.", "grpc.reflection.")


def status_of(channel: grpc.Channel, method: MethodDescriptor, metadata: list[tuple[str, str]]) -> grpc.StatusCode:
    kind = ("stream" if method.client_streaming else "unary", "stream" if method.server_streaming else "unary")
    call = getattr(channel, "_".join(kind))(f"/{method.containing_service.full_name}/{method.name}")
    request = iter([b""]) if method.client_streaming else b""
    try:
        answer = call(request, metadata=metadata, timeout=10)
        if method.server_streaming:
            list(answer)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("service", SERVICES)
def test_no_rpc_answers_a_stranger(platform: Platform, service: str) -> None:
    admin = ("authorization", f"Bearer {platform.home.admin_key()}")
    shown = [[], [(TOKEN_HEADER, "")], [(TOKEN_HEADER, "0" * 64)], [admin] if service != "gateway" else []]
    pool = descriptor_pool.Default()
    with grpc.insecure_channel(platform.target(service)) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (reply,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
        names = [found.name for found in reply.list_services_response.service]
        walked = 0
        for name in names:
            if name.startswith(OPEN):
                continue
            for method in pool.FindServiceByName(name).methods:
                for metadata in shown:
                    assert status_of(channel, method, metadata) is grpc.StatusCode.UNAUTHENTICATED, method.full_name
                walked += 1
        assert walked > 0
