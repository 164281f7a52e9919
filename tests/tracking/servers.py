"""Trackers as processes, each for one test."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet_testing.ports import free_port

ENVIRONMENTS = Path(__file__).parents[2] / ".venvs"
MLFLOW = ENVIRONMENTS / "mlflow/bin/mlflow"
TENSORBOARD = ENVIRONMENTS / "trainer/bin/tensorboard"
STARTER = Path(__file__).parents[2] / "models/starter"


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Its URL. What it keeps is below `folder`."""
    store = [f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder}/mlflow"]
    port = free_port()
    command = [str(MLFLOW), "server", "--host=127.0.0.1", f"--port={port}", "--workers=1", *store]
    with _process(command, folder / "mlflow.log"):
        url = f"http://127.0.0.1:{port}"
        until(lambda: urllib.request.urlopen(f"{url}/health", timeout=5).status == 200)
        # Its first answer takes long, where the machine is busy.
        listed = f"{url}/api/2.0/mlflow/experiments/search?max_results=1"
        until(lambda: urllib.request.urlopen(listed, timeout=120).status == 200)
        yield url


@contextmanager
def tensorboard(folder: Path, logs: Path) -> Iterator[str]:
    """Its URL. `logs`: what it shows."""
    port = free_port()
    fast = ["--reload_interval=2", "--load_fast=false"]
    command = [str(TENSORBOARD), f"--logdir={logs}", "--host=127.0.0.1", f"--port={port}", *fast]
    with _process(command, folder / "tensorboard.log"):
        url = f"http://127.0.0.1:{port}"
        until(lambda: urllib.request.urlopen(url, timeout=5).status == 200)
        yield url


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    environment = {**os.environ, "PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"}
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()


def until(is_so: Callable[[], Any], seconds: float = 600) -> Any:
    """What `is_so` gives once it is something; errors of a connection are waited out."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := is_so():
                return found
        except (OSError, ValueError, LookupError):
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "it does not become so"
        time.sleep(1)
