"""The token of a platform's services, for those of their doors that are called directly and not through the gateway."""

import os
from pathlib import Path

from ratchet_client import address
from ratchet_client.errors import Unreachable

TOKEN_FILE = "service.token"
"""In the home of a local platform."""


def service_token() -> str:
    """RATCHET_SERVICE_TOKEN, the content of RATCHET_SERVICE_TOKEN_FILE, or the token of this machine's platform.

    Raises Unreachable without any of these.
    """
    if token := os.environ.get("RATCHET_SERVICE_TOKEN"):
        return token
    path = Path(os.environ.get("RATCHET_SERVICE_TOKEN_FILE") or address.home() / TOKEN_FILE)
    try:
        return path.read_text().split()[0]  # while it is changed there are two
    except (OSError, IndexError) as error:
        raise Unreachable(
            f"The services' token is needed, and {path} cannot be read. Set RATCHET_SERVICE_TOKEN or "
            "RATCHET_SERVICE_TOKEN_FILE."
        ) from error
