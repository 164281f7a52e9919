"""A redis-server of the tests' own: the one that Ratchet bundles."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from ratchet_kit.embedded import redis_server_command
from ratchet_testing.ports import free_port


@contextmanager
def redis_server() -> Iterator[str]:
    """Starts a server on a free port, gives its URL (database 0), and stops it.

    Raises:
        RuntimeError: it ended at its start, or does not answer within 10 s; the text has its log.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-redis-") as folder:
        port, log = free_port(), Path(folder) / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                redis_server_command(port, Path(folder)), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            _wait(port, process, log)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    with redis.Redis(port=port) as client:
        end = time.monotonic() + 10
        while time.monotonic() < end and process.poll() is None:
            try:
                client.ping()
                return
            except redis.exceptions.ConnectionError:
                time.sleep(0.02)
    raise RuntimeError(f"the bundled redis-server does not answer on port {port}:\n{log.read_text()}")
