"""Python SDK of Ratchet.

`Client` and `AsyncClient` have the same methods, talk to the gateway's REST API and return the protobuf messages of the
API. `SandboxBatches` talks to a sandbox itself, over gRPC.
"""

from ratchet_client.chat import Completion
from ratchet_client.client import AsyncClient, Client
from ratchet_client.errors import ApiError, RatchetClientError, Unreachable
from ratchet_client.sandbox import SandboxBatches

__all__ = ["ApiError", "AsyncClient", "Client", "Completion", "RatchetClientError", "SandboxBatches", "Unreachable"]
