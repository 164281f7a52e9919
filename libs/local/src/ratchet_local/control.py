"""Starts, inspects and stops the local platform from the outside."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from ratchet_kit import files
from ratchet_local import environment
from ratchet_local.errors import PlatformError
from ratchet_local.home import Home
from ratchet_local.ports import Ports
from ratchet_local.processes import marked, sweep, wait_gone
from ratchet_local.services import SERVICES, environments_folder, missing_environments
from ratchet_local.state import PlatformState

STOP_TIMEOUT_S = 90.0

Progress = Callable[[PlatformState], None]


def is_running(home: Home) -> bool:
    """True while a supervisor holds the lock of this home: a stale state file or a reused pid does not count."""
    try:
        descriptor = os.open(home.lock_file, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def running_state(home: Home) -> PlatformState:
    """Raises PlatformError when no platform runs in this home."""
    state = home.read_state()
    if state is None or not is_running(home):
        raise PlatformError(f"No platform runs in {home.path}. Start it with: ratchet up")
    return state


def up(home: Home, port_base: int, timeout_s: float, progress: Progress) -> PlatformState:
    """Starts the supervisor and returns once every service is healthy.

    Raises PlatformError, with what to do, when an environment is missing, a port is taken, the folder cannot be
    written, or a service does not become healthy; then nothing is left running.
    """
    missing = missing_environments(environments_folder())
    if missing:
        raise PlatformError(f"The environments {', '.join(missing)} are not built yet. Build them with: make setup")
    try:
        home.create()
    except OSError as error:
        raise PlatformError(
            f"Cannot write to {home.path}: {error.strerror}. Set RATCHET_HOME to another folder."
        ) from error
    if is_running(home):
        state = home.read_state()
        if state is not None and state.healthy:
            return state
        raise PlatformError(f"A platform in {home.path} is already starting or unwell. See: ratchet status")
    # A supervisor that was killed leaves no lock; what it started may still be there.
    sweep(home.path)
    home.state_file.unlink(missing_ok=True)
    try:
        ports = Ports.from_base(port_base)
    except OSError as error:
        raise PlatformError(f"{error}. Name one with --port-base.") from error
    taken = ports.taken()
    if taken:
        listed = ", ".join(f"{port} ({name})" for name, port in taken)
        raise PlatformError(
            f"In use by another program: port {listed}. Choose other ports with --port-base N (0: any free)."
        )
    with home.log("supervisor").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ratchet_local.supervisor", str(home.path), str(ports["gateway-http"])],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=environment.of_supervisor(SERVICES, os.environ) | {"RATCHET_INSTANCE": str(home.path)},
        )
    try:
        return _wait_healthy(home, process, timeout_s, progress)
    except BaseException:
        down(home)
        raise


def changed_since(home: Home) -> list[str]:
    """Names of variables that this process has otherwise than the running platform was started with: they count once it
    is started again. Those that it has not are not named: another shell may have set them."""
    state = home.read_state()
    try:
        started = psutil.Process(state.pid).environ() if state else None
    except psutil.Error:
        started = None
    if started is None:
        return []
    wanted = environment.settings(SERVICES, os.environ)
    return sorted(name for name, value in wanted.items() if started.get(name) != value)


def restart(home: Home, name: str, timeout_s: float) -> None:
    """Ends a service in order; the supervisor starts it again. Returns once it is healthy.

    Raises PlatformError when no platform runs, or the service is not healthy in time.
    """
    before = running_state(home).service(name)
    if before is not None and before.pid is not None:
        os.kill(before.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = running_state(home).service(name)
        if now is not None and now.state == "healthy" and (before is None or now.pid != before.pid):
            return
        time.sleep(0.25)
    raise PlatformError(f"{name} is not healthy {timeout_s:.0f} s after it was ended. Look at: {home.log(name)}")


def _wait_healthy(home: Home, process: subprocess.Popen[bytes], timeout_s: float, progress: Progress) -> PlatformState:
    deadline = time.monotonic() + timeout_s
    state: PlatformState | None = None
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PlatformError(f"The supervisor stopped at its start. Its log says why: {home.log('supervisor')}")
        state = home.read_state()
        if state is not None:
            progress(state)
            if state.healthy:
                return state
            unwell = next((service for service in state.services if service.restarts >= 3), None)
            if unwell is not None:
                log = home.log(unwell.name)
                reason = files.last_words(log) or f"it logged nothing ({log})"
                raise PlatformError(f"{unwell.name} does not start: {reason}")
        time.sleep(0.25)
    waiting = ", ".join(s.name for s in state.services if s.state != "healthy") if state else "the supervisor"
    raise PlatformError(f"Not healthy after {timeout_s:.0f} s: {waiting}. Look at: {home.logs}")


def down(home: Home) -> bool:
    """Stops the platform and whatever a killed one left; True when there was something to stop.

    Raises PlatformError when a process survives even SIGKILL.
    """
    if not home.path.is_dir():
        return False
    state = home.read_state()
    was_running = is_running(home)
    if was_running and state is not None:
        os.kill(state.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while is_running(home) and time.monotonic() < deadline:
            time.sleep(0.1)
    left = sweep(home.path)
    if not wait_gone(home.path, 10.0):
        pids = ", ".join(str(process.pid) for process in marked(home.path))
        raise PlatformError(f"These processes do not end: {pids}. Look at them with: ps -fp {pids}")
    home.state_file.unlink(missing_ok=True)
    return was_running or left > 0
