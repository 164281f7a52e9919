"""A server for the sandbox that a test module says: its fixture `sandbox`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from ratchet.sandbox.v1 import sandbox_pb2_grpc


@pytest.fixture
def target(sandbox: sandbox_pb2_grpc.SandboxServiceServicer) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(sandbox, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()
