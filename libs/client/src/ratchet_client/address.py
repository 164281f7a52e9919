"""Where the platform answers, and with which key: as named, else from the environment, else the one of this machine."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ratchet_client.errors import Unreachable

STATE_FILE = "state.json"
"""In the home of a local platform: its processes and ports."""
KEY_FILE = "admin.key"
"""In the home of a local platform: the administrator's API key."""


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    api_key: str | None = None


def find(url: str | None = None, api_key: str | None = None) -> Address:
    """The arguments first, then RATCHET_URL and RATCHET_API_KEY, then the platform that `ratchet up` started here.

    Raises Unreachable when no address is known, or the one named is no URL of HTTP.
    """
    url = url or elsewhere()
    api_key = api_key or os.environ.get("RATCHET_API_KEY")
    if not url:
        return _local(home(), api_key)
    if not url.startswith(("http://", "https://")):
        raise Unreachable(f"'{url}' is not a gateway's address: begin it with http:// or https://.")
    return Address(url.rstrip("/"), api_key)


def elsewhere() -> str:
    """RATCHET_URL: the address of a platform that need not see this machine's files; empty for the one of this
    machine."""
    return os.environ.get("RATCHET_URL", "")


def home() -> Path:
    """The folder of the local platform: RATCHET_HOME, or ~/.ratchet."""
    return Path(os.environ.get("RATCHET_HOME") or Path.home() / ".ratchet").absolute()


def _local(folder: Path, api_key: str | None) -> Address:
    try:
        port = json.loads((folder / STATE_FILE).read_text())["ports"]["gateway-http"]
        key = api_key or (folder / KEY_FILE).read_text().strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Unreachable(
            f"No platform runs in {folder}. Start one with `ratchet up`, or set RATCHET_URL and RATCHET_API_KEY."
        ) from error
    return Address(f"http://127.0.0.1:{port}", key)
