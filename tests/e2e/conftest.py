"""A platform of one's own for the end-to-end tests: the real services, on free ports, in a folder of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ratchet_client import Client
from ratchet_local.home import Home
from ratchet_local.processes import marked
from ratchet_local.services import environments_folder, missing_environments


@dataclass(frozen=True)
class Platform:
    """A running platform, reached as a user reaches it."""

    home: Home
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside that of the tests, without what begins with RATCHET_."""

    def ratchet(self, *arguments: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Runs the `ratchet` command against this platform."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
        return subprocess.run(
            [sys.executable, "-m", "ratchet_cli.main", *arguments],
            env={**environment, **self.environment} | {"RATCHET_HOME": str(self.home.path), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def target(self, service: str) -> str:
        """host:port of a service's gRPC."""
        state = self.home.read_state()
        assert state is not None
        return f"127.0.0.1:{state.ports[service]}"

    def client(self) -> Client:
        state = self.home.read_state()
        assert state is not None
        return Client(f"http://127.0.0.1:{state.ports['gateway-http']}", self.home.admin_key(), timeout_s=120)


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    with running() as platform:
        yield platform


@contextmanager
def running(environment: Mapping[str, str] = {}) -> Iterator[Platform]:
    """Up here, and down with nothing left of it at the end. Skips the test where what it runs in is not built."""
    if missing := missing_environments(environments_folder()):
        pytest.skip(f"the environments {', '.join(missing)} are not built: make setup")
    # A short path: Ray's sockets lie below it, and a socket's path may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="rat-"))
    platform = Platform(Home(folder), environment)
    try:
        up = platform.ratchet("up", "--port-base", "0", "--timeout", "300", timeout=400)
        assert up.returncode == 0, up.stderr
        yield platform
    finally:
        down = platform.ratchet("down")
        left = marked(platform.home.path)
        keep = os.environ.get("RATCHET_KEEP_E2E")
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    assert down.returncode == 0, down.stderr
    assert left == [], f"processes left behind: {left}"


@pytest.fixture
def client(platform: Platform) -> Iterator[Client]:
    with platform.client() as client:
        yield client
