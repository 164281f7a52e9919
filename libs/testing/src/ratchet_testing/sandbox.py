"""A sandbox-service of the tests' own, as a process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ratchet_testing.ports import free_port


@contextmanager
def sandbox_service(**settings: str) -> Iterator[str]:
    """Starts one on a free port, gives its host:port, and stops it. Who calls it waits until it is healthy. `settings`:
    by their names in the environment, without RATCHET_SANDBOX_."""
    port = free_port()
    settings = {f"RATCHET_SANDBOX_{name.upper()}": value for name, value in settings.items()}
    settings |= {"RATCHET_SANDBOX_PORT": str(port), "RATCHET_SANDBOX_METRICS_PORT": "0"}
    process = subprocess.Popen([sys.executable, "-m", "sandbox_service.main"], env=os.environ | settings)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)
