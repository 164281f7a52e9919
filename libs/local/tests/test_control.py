"""Starting and stopping from the outside, with real processes and locks."""

import os
import threading
import time
from dataclasses import replace
from typing import Any

import psutil
import pytest

from ratchet_local import control
from ratchet_local.errors import PlatformError
from ratchet_local.home import Home
from ratchet_local.state import PlatformState, ServiceState
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


def test_settings_that_a_running_platform_does_not_have_are_named(
    home: Home, sleeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_TRAINER_PLUGINS", "easy_first")
    monkeypatch.delenv("RATCHET_EVAL_BATCH", raising=False)
    home.write_state(PlatformState(sleeper(home).pid, 0.0, {}, ()))
    assert control.changed_since(home) == []
    monkeypatch.setenv("RATCHET_TRAINER_PLUGINS", "easy_first,hints")
    monkeypatch.setenv("RATCHET_EVAL_BATCH", "8")
    monkeypatch.setenv("RATCHET_HOME", "/elsewhere")
    assert control.changed_since(home) == ["RATCHET_EVAL_BATCH", "RATCHET_TRAINER_PLUGINS"]
    monkeypatch.delenv("RATCHET_TRAINER_PLUGINS")
    assert control.changed_since(home) == ["RATCHET_EVAL_BATCH"]


def test_up_refuses_when_an_environment_is_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "environments_folder", lambda: home.path)
    with pytest.raises(PlatformError, match="make setup"):
        control.up(home, 0, 1.0, lambda state: None)


def test_a_service_that_is_restarted_is_waited_for(home: Home, sleeper: Any) -> None:
    descriptor = lock(home)
    old = sleeper(home)
    state = PlatformState(os.getpid(), 0.0, {}, (ServiceState("sandbox", "healthy", old.pid),))
    home.write_state(state)

    def supervise() -> None:
        old.wait()
        home.write_state(replace(state, services=(ServiceState("sandbox", "starting", 2),)))
        time.sleep(0.3)
        home.write_state(replace(state, services=(ServiceState("sandbox", "healthy", 2),)))

    supervising = threading.Thread(target=supervise)
    supervising.start()
    control.restart(home, "sandbox", 30.0)
    service = control.running_state(home).service("sandbox")
    assert service is not None
    assert (service.state, service.pid) == ("healthy", 2)
    supervising.join()
    assert descriptor is not None
    os.close(descriptor)


def test_one_that_does_not_come_back_is_said(home: Home, sleeper: Any) -> None:
    descriptor = lock(home)
    home.write_state(PlatformState(os.getpid(), 0.0, {}, (ServiceState("sandbox", "healthy", sleeper(home).pid),)))
    with pytest.raises(PlatformError, match=r"sandbox is not healthy 1 s after.*sandbox\.log"):
        control.restart(home, "sandbox", 1.0)
    assert descriptor is not None
    os.close(descriptor)
