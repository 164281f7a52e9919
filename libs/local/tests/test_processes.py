"""The sweep, with real processes."""

from pathlib import Path
from typing import Any

import psutil

from ratchet_local.home import Home
from ratchet_local.processes import marked, sweep


def test_sweep_ends_what_carries_the_mark_and_nothing_else(home: Home, tmp_path: Path, sleeper: Any) -> None:
    other = sleeper(Home(tmp_path / "other"))
    stubborn = sleeper(home, ignores_sigterm=True)
    willing = sleeper(home)
    assert {process.pid for process in marked(home.path)} == {stubborn.pid, willing.pid}
    assert sweep(home.path, grace_s=0.5) == 2
    assert not psutil.pid_exists(stubborn.pid)
    assert not psutil.pid_exists(willing.pid)
    assert other.poll() is None
