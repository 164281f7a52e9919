"""Processes of a service, as in production, that are stopped and killed while others go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from ratchet_kit.client import wait_healthy
from ratchet_testing.ports import free_port

START = timedelta(seconds=600)


@dataclass(slots=True)
class Replica:
    """One process of a service. Mutable: it is started, and killed."""

    service: str
    environment: Mapping[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    python: str = sys.executable
    """The interpreter of the environment that the service needs."""

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        prefix = f"RATCHET_{self.service.upper()}"
        own = {f"{prefix}_PORT": str(self.port), f"{prefix}_METRICS_PORT": "0"}
        command = [self.python, "-m", f"{self.service}_service.main"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=os.environ | self.environment | own, stderr=log)

    async def is_up(self) -> None:
        """Waits until it answers, and sees that it is the process that was started."""
        await wait_healthy(self.target, START)
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-3000:]

    def signal(self, number: int) -> None:
        assert self.process is not None
        assert self.process.poll() is None, f"it ended by itself: {self.log.read_text()[-3000:]}"
        self.process.send_signal(number)

    def stop_for(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT."""
        self.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def end(self) -> None:
        self.signal(signal.SIGTERM)
        assert self.process is not None
        assert self.process.wait(30) == 0, self.log.read_text()[-3000:]


def door(replicas: Sequence[Replica]) -> str:
    """A target with the addresses of all of them."""
    return "ipv4:" + ",".join(replica.target for replica in replicas)
