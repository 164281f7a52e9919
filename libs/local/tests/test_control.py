"""Starting and stopping from the outside, with real processes and locks."""

import os
import time
from typing import Any

import psutil
import pytest

from ratchet_local import control
from ratchet_local.errors import PlatformError
from ratchet_local.home import Home
from ratchet_local.state import PlatformState
from ratchet_local.supervisor import lock


def test_a_lock_tells_a_living_supervisor_from_a_stale_state(home: Home) -> None:
    home.write_state(PlatformState(os.getpid(), 0.0, {}, ()))
    assert not control.is_running(home)
    descriptor = lock(home)
    assert descriptor is not None
    assert control.is_running(home)
    assert lock(home) is None
    os.close(descriptor)


def test_down_cleans_up_after_a_supervisor_that_was_killed(home: Home, sleeper: Any) -> None:
    orphan = sleeper(home)
    home.write_state(PlatformState(999_999, time.time(), {}, ()))
    assert control.down(home)
    assert not psutil.pid_exists(orphan.pid)
    assert home.read_state() is None
    assert not control.down(home)


def test_up_refuses_when_an_environment_is_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "environments_folder", lambda: home.path)
    with pytest.raises(PlatformError, match="make setup"):
        control.up(home, 0, 1.0, lambda state: None)
