"""The local platform's own parts: ports, state, locks and the sweep, with real processes and sockets."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ratchet_client.errors import CommandError
from ratchet_client.local import control
from ratchet_client.local.layout import OFFSETS, Home, PlatformState, Ports, ServiceState
from ratchet_client.local.processes import marked, sweep
from ratchet_client.local.services import External, plan
from ratchet_client.local.supervisor import lock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def sleeper(home: Home, ignores_sigterm: bool = False) -> subprocess.Popen[bytes]:
    code = "import signal, time\n"
    if ignores_sigterm:
        code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "print('ready', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"RATCHET_INSTANCE": str(home.path)}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_ports_follow_the_base() -> None:
    ports = Ports.from_base(9100)
    assert {name: ports[name] - 9100 for name in OFFSETS} == dict(OFFSETS)
    assert ports.target("sandbox") == "127.0.0.1:9104"


def test_base_zero_finds_a_block_that_is_free() -> None:
    assert Ports.from_base(0).taken() == []


def test_a_taken_port_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        base = holder.getsockname()[1] - OFFSETS["rollout"]
        assert ("rollout", holder.getsockname()[1]) in Ports.from_base(base).taken()


def test_state_comes_back_as_written(home: Home) -> None:
    state = PlatformState(1, 2.0, {"gateway": 3}, (ServiceState("gateway", "healthy", pid=4, restarts=1, since=5.0),))
    home.write_state(state)
    assert home.read_state() == state


def test_the_admin_key_is_made_once_and_private(home: Home) -> None:
    key = home.admin_key()
    assert home.admin_key() == key
    assert (home.path / "admin.key").stat().st_mode & 0o077 == 0


def test_a_lock_tells_a_living_supervisor_from_a_stale_state(home: Home) -> None:
    home.write_state(PlatformState(os.getpid(), 0.0, {}, ()))
    assert not control.is_running(home)
    descriptor = lock(home)
    assert descriptor is not None
    assert control.is_running(home)
    assert lock(home) is None
    os.close(descriptor)


def test_sweep_ends_what_carries_the_mark_and_nothing_else(home: Home, tmp_path: Path) -> None:
    other = sleeper(Home(tmp_path / "other"))
    stubborn = sleeper(home, ignores_sigterm=True)
    willing = sleeper(home)
    try:
        assert {process.pid for process in marked(home.path)} == {stubborn.pid, willing.pid}
        assert sweep(home.path, grace_s=0.5) == 2
        assert not psutil.pid_exists(stubborn.pid)
        assert not psutil.pid_exists(willing.pid)
        assert other.poll() is None
    finally:
        for process in (other, stubborn, willing):
            process.kill()
            process.wait()


def test_down_cleans_up_after_a_supervisor_that_was_killed(home: Home) -> None:
    orphan = sleeper(home)
    home.write_state(PlatformState(999_999, time.time(), {}, ()))
    assert control.down(home)
    assert not psutil.pid_exists(orphan.pid)
    assert home.read_state() is None
    assert not control.down(home)


def test_up_refuses_when_an_environment_is_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "environments_folder", lambda: home.path)
    with pytest.raises(CommandError, match="make setup"):
        control.up(home, 0, 1.0, lambda state: None)


def test_each_service_gets_its_own_database_and_its_peers(home: Home) -> None:
    ports = Ports.from_base(9100)
    services = {service.name: service for service in plan(home, ports, External(), {})}
    assert list(services) == ["redis", "sandbox", "rollout", "registry", "eval", "trainer", "gateway"]
    assert len({service.environment.get("DATABASE_URL") for service in services.values()}) == 7
    assert services["trainer"].environment["RATCHET_TRAINER_ROLLOUT_TARGET"] == ports.target("rollout")
    assert services["trainer"].command[0].endswith("trainer/bin/python")


def test_what_is_pointed_elsewhere_is_not_started_here(home: Home) -> None:
    external = External.from_environment(
        {"REDIS_URL": "redis://elsewhere:6379/0", "DATABASE_URL": "postgresql://u@db:5432", "RAY_ADDRESS": "ray:6379"}
    )
    services = {service.name: service for service in plan(home, Ports.from_base(9100), external, {})}
    assert "redis" not in services
    assert services["eval"].environment["REDIS_URL"] == "redis://elsewhere:6379/0"
    assert services["eval"].environment["DATABASE_URL"] == "postgresql://u@db:5432/ratchet_eval"
    assert services["trainer"].environment["RAY_ADDRESS"] == "ray:6379"
