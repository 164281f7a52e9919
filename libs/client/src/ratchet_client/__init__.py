"""Python SDK of Ratchet: `Client` talks to the gateway's REST door and returns the protobuf messages of the API."""

from ratchet_client.client import Client
from ratchet_client.errors import ApiError, Unreachable

__all__ = ["ApiError", "Client", "Unreachable"]
