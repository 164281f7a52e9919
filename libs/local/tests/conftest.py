"""A home, and processes that carry the mark of one."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ratchet_local.home import Home

Sleeper = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    """Starts a process with the mark of a home."""
    started = []

    def start(home: Home, ignores_sigterm: bool = False) -> "subprocess.Popen[bytes]":
        code = "import signal, time\n"
        if ignores_sigterm:
            code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        code += "print('ready', flush=True)\ntime.sleep(60)"
        environment = os.environ | {"RATCHET_INSTANCE": str(home.path)}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
