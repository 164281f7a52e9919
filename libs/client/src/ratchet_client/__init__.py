"""Python SDK of Ratchet: `Client` talks to the gateway's REST door and returns the protobuf messages of the API.

`SandboxBatches` talks to a sandbox itself.
"""

from ratchet_client.batches import SandboxBatches
from ratchet_client.client import Client
from ratchet_client.errors import ApiError, Unreachable

__all__ = ["ApiError", "Client", "SandboxBatches", "Unreachable"]
