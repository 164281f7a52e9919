"""The command in this process, and a gRPC server for a test module's fixture `sandbox`."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet_cli import main
from ratchet_testing.gateway import ScriptedGateway


@dataclass(frozen=True, slots=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ratchet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Runs the command with a home of its own, through a pipe."""
    for name in [name for name in os.environ if name.startswith("RATCHET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))
    monkeypatch.setenv("RATCHET_SERVICE_TOKEN", "t" * 64)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Result:
        monkeypatch.setattr("sys.argv", ["ratchet", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main.main()
        out, err = capfd.readouterr()
        code = left.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return run


@pytest.fixture
def address(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command calls this gateway."""
    monkeypatch.setenv("RATCHET_URL", gateway.url)


@pytest.fixture
def target(sandbox: Any) -> Iterator[str]:
    """`sandbox.add(server)` adds its services."""
    server = grpc.server(ThreadPoolExecutor(2))
    sandbox.add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()
