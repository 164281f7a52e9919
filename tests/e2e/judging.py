"""The services that judge samples which were made elsewhere, each a process: gateway, eval and sandbox; no model."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ratchet_client import Client
from ratchet_testing.ports import free_port
from ratchet_testing.redis_server import redis_server

KEY = "rk_of_the_tests_of_imported_samples"
START_S = 240.0


@dataclass(frozen=True, slots=True)
class Judges:
    url: str
    folder: Path

    def client(self) -> Client:
        return Client(self.url, KEY, timeout_s=120)

    def ratchet(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs the `ratchet` command against these services."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
        environment |= {"RATCHET_URL": self.url, "RATCHET_API_KEY": KEY, "RATCHET_HOME": str(self.folder)}
        return subprocess.run(
            [sys.executable, "-m", "ratchet_cli.main", *arguments],
            env=environment | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )


@contextmanager
def judges(folder: Path, data: Path) -> Iterator[Judges]:
    """`data`: where benchmarks lie (RATCHET_DATA)."""
    ports = {name: free_port() for name in ("sandbox", "eval", "gateway", "http")}
    nowhere = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        redis_url = stack.enter_context(redis_server())
        common = {
            "REDIS_URL": redis_url,
            "RATCHET_HOME": str(folder),
            "RATCHET_DATA": str(data),
            "RATCHET_GATEWAY_HTTP_PORT": str(ports["http"]),
            "RATCHET_GATEWAY_ADMIN_KEY": KEY,
            "RATCHET_SERVICE_TOKEN": "a-token-of-the-tests-of-imported-samples",
        }
        peers = {"sandbox": f"127.0.0.1:{ports['sandbox']}", "eval": f"127.0.0.1:{ports['eval']}"}
        for name in ("sandbox", "eval", "gateway"):
            prefix = f"RATCHET_{name.upper()}_"
            own = {f"{prefix}PORT": str(ports[name]), f"{prefix}METRICS_PORT": "0", f"{prefix}HOST": "127.0.0.1"}
            for peer in ("trainer", "rollout", "registry", "eval", "sandbox"):
                own[f"{prefix}{peer.upper()}_TARGET"] = peers.get(peer, nowhere)
            own["DATABASE_URL"] = f"sqlite:///{folder}/{name}.db"
            stack.enter_context(_process(name, folder, os.environ | common | own))
        for name in ("sandbox", "eval", "gateway"):
            _wait(ports[name], folder / f"{name}.log")
        yield Judges(f"http://127.0.0.1:{ports['http']}", folder)


@contextmanager
def _process(name: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{name}_service.main"], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait(port: int, log: Path) -> None:
    until = time.monotonic() + START_S
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                if stub.Check(health_pb2.HealthCheckRequest(), timeout=1).status == 1:
                    return
            except grpc.RpcError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(log.read_text()[-4000:])
            time.sleep(0.1)
