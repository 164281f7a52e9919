"""The services that judge samples which were made elsewhere, each a process: gateway, eval and sandbox; no model. And
others that need no engine, by name."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ratchet_client import Client
from ratchet_local.services import PEERS
from ratchet_testing.ports import free_port
from ratchet_testing.redis_server import redis_server
from ratchet_testing.replicas import Replica

KEY = "rk_of_the_tests_of_imported_samples"
TOKEN = "a-token-of-the-tests-of-imported-samples"


@dataclass(frozen=True, slots=True)
class Judges:
    url: str
    folder: Path
    pids: Mapping[str, int]
    """Of the processes, by their services' names."""
    targets: Mapping[str, str]
    """host:port of each, of gRPC."""

    def client(self) -> Client:
        return Client(self.url, KEY, timeout_s=120)

    def ratchet(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs the `ratchet` command against these services."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
        environment |= {"RATCHET_URL": self.url, "RATCHET_API_KEY": KEY, "RATCHET_HOME": str(self.folder)}
        environment["RATCHET_SERVICE_TOKEN"] = TOKEN
        return subprocess.run(
            [sys.executable, "-m", "ratchet_cli.main", *arguments],
            env=environment | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )


@contextmanager
def judges(
    folder: Path, data: Path, services: Sequence[str] = ("sandbox", "eval", "gateway"), **settings: str
) -> Iterator[Judges]:
    """`data`: where benchmarks lie (RATCHET_DATA). `settings`: more variables of all services."""
    http_port = free_port()
    nowhere = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        redis_url = stack.enter_context(redis_server())
        common = {
            "REDIS_URL": redis_url,
            "RATCHET_HOME": str(folder),
            "RATCHET_DATA": str(data),
            "RATCHET_GATEWAY_HTTP_PORT": str(http_port),
            "RATCHET_GATEWAY_ADMIN_KEY": KEY,
            "RATCHET_SERVICE_TOKEN": TOKEN,
        }
        replicas = {name: Replica(name, {}, folder / f"{name}.log") for name in services}
        for name, replica in replicas.items():
            prefix = f"RATCHET_{name.upper()}_"
            own = {"DATABASE_URL": f"sqlite:///{folder}/{name}.db"}
            for peer in PEERS[name]:
                own[f"{prefix}{peer.upper()}_TARGET"] = replicas[peer].target if peer in replicas else nowhere
            replica.environment = common | own | settings
            replica.start()
            stack.callback(replica.end)
        for replica in replicas.values():
            asyncio.run(replica.is_up())
        pids = {name: replica.process.pid for name, replica in replicas.items() if replica.process}
        yield Judges(
            f"http://127.0.0.1:{http_port}", folder, pids, {name: replica.target for name, replica in replicas.items()}
        )
