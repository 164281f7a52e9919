"""Keeps every process of the local platform alive until it gets SIGTERM.

`python -m ratchet_local.supervisor HOME PORT_BASE`; `ratchet up` starts it.
"""

import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import structlog
from redis.exceptions import RedisError

from ratchet_kit import log_files, logs
from ratchet_kit.client import wait_healthy
from ratchet_kit.process import ProcessGroup
from ratchet_kit.streams import connect
from ratchet_kit.work import surviving
from ratchet_local.home import Home
from ratchet_local.ports import Ports
from ratchet_local.processes import sweep
from ratchet_local.services import External, Service, bundled_redis_url, plan
from ratchet_local.state import PlatformState, ServiceState

START_TIMEOUT = timedelta(seconds=120)
STOP_GRACE = timedelta(seconds=20)
FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(seconds=30)
# A service that lived this long starts its backoff anew when it dies.
STEADY = timedelta(seconds=60)

log = structlog.get_logger("supervisor")


class Supervisor:
    """Owns the processes: starts them in order, restarts one that dies, writes what it knows to the state file."""

    def __init__(self, home: Home, ports: Ports, services: Sequence[Service]) -> None:
        self._home = home
        self._ports = ports
        self._services = services
        self._states = {service.name: ServiceState(service.name, "stopped", since=time.time()) for service in services}
        self._healthy = {service.name: asyncio.Event() for service in services}
        self._started = time.time()

    async def run(self, stop: asyncio.Event) -> None:
        """Returns when `stop` is set and no process is left."""
        self._write()
        keepers = [asyncio.create_task(self._keep(service, stop), name=service.name) for service in self._services]
        bounding = asyncio.create_task(log_files.bound(lambda: self._home.logs.glob("*.log"), stop))
        await stop.wait()
        await bounding
        # What others need (Redis) stops last: they use it while they drain.
        needed = {need for service in self._services for need in service.needs}
        for group in ([k for k in keepers if k.get_name() not in needed], keepers):
            for keeper in group:
                keeper.cancel()
            await asyncio.gather(*group, return_exceptions=True)

    async def _keep(self, service: Service, stop: asyncio.Event) -> None:
        backoff = FIRST_BACKOFF
        while not stop.is_set():
            for need in service.needs:
                await self._healthy[need].wait()
            born = time.monotonic()
            try:
                with surviving("keep service", service=service.name):
                    await self._live(service)
            finally:
                self._healthy[service.name].clear()
            if time.monotonic() - born > STEADY.total_seconds():
                backoff = FIRST_BACKOFF
            state = self._states[service.name]
            self._set(service.name, state="restarting", restarts=state.restarts + 1, pid=None)
            await asyncio.sleep(backoff.total_seconds())
            backoff = min(backoff * 2, LONGEST_BACKOFF)

    async def _live(self, service: Service) -> None:
        """One life of a service: start it, wait until it is healthy, wait until it dies."""
        with self._home.log(service.name).open("ab") as out:
            group = await ProcessGroup.start(
                service.command, env=service.environment, stdout=out, stderr=out, cwd=self._home.path
            )
            try:
                self._set(service.name, state="starting", pid=group.pid, detail="")
                died = asyncio.create_task(group.wait())
                healthy = asyncio.create_task(self._wait_healthy(service))
                done, _ = await asyncio.wait({died, healthy}, return_when=asyncio.FIRST_COMPLETED)
                if healthy in done and healthy.exception() is None:
                    self._set(service.name, state="healthy")
                    self._healthy[service.name].set()
                    log.info("service.healthy", of=service.name, pid=group.pid)
                    code = await died
                    self._died(service, f"exited with code {code}")
                elif died in done:
                    healthy.cancel()
                    self._died(service, f"exited with code {died.result()} before it was healthy")
                else:
                    died.cancel()
                    self._died(service, f"did not become healthy in {START_TIMEOUT.total_seconds():.0f} s")
            finally:
                await group.stop(STOP_GRACE)
                self._set(service.name, state="stopped", pid=None)

    def _died(self, service: Service, reason: str) -> None:
        log.warning("service.died", of=service.name, reason=reason)
        self._set(service.name, detail=reason)

    async def _wait_healthy(self, service: Service) -> None:
        if service.name != "redis":
            await wait_healthy(f"127.0.0.1:{service.port}", START_TIMEOUT)
            return
        async with asyncio.timeout(START_TIMEOUT.total_seconds()):
            client = connect(bundled_redis_url(self._home, self._ports))
            try:
                while True:
                    try:
                        await client.ping()
                        return
                    except (OSError, RedisError):
                        await asyncio.sleep(0.1)
            finally:
                await client.aclose()

    def _set(self, name: str, **changes: object) -> None:
        self._states[name] = replace(self._states[name], since=time.time(), **changes)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        state = PlatformState(
            pid=os.getpid(),
            started=self._started,
            ports=dict(self._ports.by_name),
            services=tuple(self._states.values()),
        )
        with surviving("write state"):  # on a disk that is full, services are kept alive all the same
            self._home.write_state(state)


def lock(home: Home) -> int | None:
    """Takes the lock that says "a supervisor lives here"; None when another holds it. Held until the process ends."""
    descriptor = os.open(home.lock_file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


async def supervise(home: Home, ports: Ports) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    services = plan(home, ports, External.from_environment(os.environ), os.environ)
    try:
        await Supervisor(home, ports, services).run(stop)
    finally:
        sweep(home.path)
        home.state_file.unlink(missing_ok=True)


def main() -> None:
    home = Home(Path(sys.argv[1]))
    ports = Ports.from_base(int(sys.argv[2]))
    logs.configure("supervisor", "info")
    if lock(home) is None:
        sys.exit(f"another supervisor runs in {home.path}")
    asyncio.run(supervise(home, ports))


if __name__ == "__main__":
    main()
