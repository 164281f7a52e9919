"""Several processes of one gateway on its ports, as `python -m gateway_service.main` starts them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from ratchet_testing import free_port

pytestmark = pytest.mark.integration
KEY = "rk_test_0123456789abcdef0123456789"
PATIENCE = 60.0


class Gateway:
    def __init__(self, folder: Path, workers: int) -> None:
        self.http, self.grpc, self.metrics = free_port(), free_port(), free_port()
        nowhere = f"127.0.0.1:{free_port()}"
        own = {
            "WORKERS": str(workers),
            "PORT": str(self.grpc),
            "HTTP_PORT": str(self.http),
            "METRICS_PORT": str(self.metrics),
            "ADMIN_KEY": KEY,
            "GRACE": "2",
        } | dict.fromkeys([f"{name}_TARGET" for name in ("TRAINER", "ROLLOUT", "SANDBOX", "EVAL", "REGISTRY")], nowhere)
        self.environment = os.environ | {f"RATCHET_GATEWAY_{name}": value for name, value in own.items()}
        self.environment["DATABASE_URL"] = f"sqlite:///{folder / 'gateway.db'}"
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "gateway_service.main"], env=self.environment)

    def workers(self) -> list[int]:
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [
            one.pid for one in below if one.cmdline()[-2:-1] == ["worker"] and "_guard.py" not in str(one.cmdline())
        ]

    def listening(self) -> set[int]:
        """The workers that listen for HTTP."""
        found = set()
        for pid in self.workers():
            ports = {one.laddr.port for one in psutil.Process(pid).net_connections("tcp") if one.status == "LISTEN"}
            if {self.http, self.grpc} <= ports:
                found.add(pid)
        return found

    def get(self, path: str) -> httpx.Response:
        """Over a connection of its own."""
        return httpx.get(f"http://127.0.0.1:{self.http}{path}", headers={"authorization": f"Bearer {KEY}"}, timeout=30)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, workers=2)
    yield gateway
    gateway.process.kill()
    gateway.process.wait()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if holds():
                return
        except (httpx.TransportError, psutil.NoSuchProcess):
            pass
        time.sleep(0.1)
    raise TimeoutError


def test_two_answer_on_one_port_and_one_that_is_killed_comes_back(gateway: Gateway) -> None:
    until(lambda: len(gateway.listening()) == 2)
    assert {gateway.get("/api/v1/keys").status_code for _ in range(10)} == {200}

    before = gateway.listening()
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(found := gateway.listening()) == 2 and killed not in found)
    assert before - {killed} <= gateway.listening()
    assert {gateway.get("/api/v1/keys").status_code for _ in range(10)} == {200}

    read = httpx.get(f"http://127.0.0.1:{gateway.metrics}/metrics").text
    answered = [line for line in read.splitlines() if line.startswith("ratchet_gateway_http_handled_total")]
    assert sum(float(line.rpartition(" ")[2]) for line in answered) >= 10, "of all, the killed one too"
    assert f'pid="{killed}"' not in read

    second = gateway.start()
    assert second.wait(PATIENCE) == 1, "the ports are taken"

    left = [gateway.process.pid, *gateway.workers()]
    gateway.process.terminate()
    assert gateway.process.wait(PATIENCE) == 0
    assert not [pid for pid in left[1:] if psutil.pid_exists(pid)]
