"""A platform as `ratchet up` runs it, under the same supervisor, with a second gateway behind a load balancer and a
second rollout node. SOAK_LOGS: a folder for their logs."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ratchet.common.v1 import node_pb2
from ratchet_client import Client
from ratchet_local.home import Home
from ratchet_local.ports import Ports
from ratchet_local.processes import marked, sweep
from ratchet_local.services import External, Service, environments_folder, missing_environments, plan
from ratchet_local.supervisor import Supervisor
from ratchet_testing.ports import free_port
from tests.chaos.cable import network
from tests.chaos.killing import wait_until
from tests.e2e.conftest import Platform

READY, SERVING = node_pb2.Node.Engine.STATE_READY, node_pb2.Node.STATE_SERVING
FOR_SERVING = node_pb2.PURPOSE_SERVING
START_S = 400.0


@dataclass(frozen=True, kw_only=True)
class Doubled(Platform):
    url: str
    """Of the load balancer."""

    def client(self) -> Client:
        return Client(self.url, self.home.admin_key(), timeout_s=30)

    def is_well(self) -> bool:
        """Each process answers."""
        state = self.home.read_state()
        return state is not None and state.healthy

    def pid(self, service: str) -> int:
        state = self.home.read_state()
        found = state.service(service) if state else None
        assert found is not None, f"no {service}"
        assert found.pid is not None, f"{service} does not run"
        return found.pid


@contextmanager
def doubled() -> Iterator[Doubled]:
    missing = set(missing_environments(environments_folder()))
    if missing:
        pytest.skip(f"the environments {', '.join(sorted(missing))} are not built: make setup")
    folder = Path(tempfile.mkdtemp(prefix="rat-"))
    home = Home(folder)
    home.create()
    own = Ports.from_base(0)
    names = ("gateway-2", "gateway-2-http", "gateway-2-metrics", "rollout-2", "rollout-2-metrics")
    ports = Ports({**own.by_name, **{name: free_port() for name in names}})
    services = _with_seconds(home, ports, plan(home, ports, External(), os.environ))
    with network() as net, _supervised(home, ports, services):
        balancer = net.cable(ports["gateway-http"], ports["gateway-2-http"])
        platform = Doubled(home, url=f"http://{balancer.target}")
        try:
            wait_until(platform.is_well, START_S)
            yield platform
        finally:
            if logs := os.environ.get("SOAK_LOGS"):
                shutil.copytree(home.logs, logs, dirs_exist_ok=True)
    left = marked(home.path)
    sweep(home.path)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == [], f"processes left behind: {left}"


def _with_seconds(home: Home, ports: Ports, services: Sequence[Service]) -> list[Service]:
    nodes = f"{ports.target('rollout')},{ports.target('rollout-2')}"
    known = {f"RATCHET_{name}_ROLLOUT_TARGET": nodes for name in ("GATEWAY", "EVAL", "TRAINER")}
    small = {
        "RATCHET_ROLLOUT_PEERS": nodes,
        "RATCHET_ROLLOUT_THREADS": "1",
        "RATCHET_ROLLOUT_KV_CACHE_BYTES": "64000000",
    }
    found = []
    for service in services:
        environment = {**service.environment, **known, **(small if service.name == "rollout" else {})}
        address = {"RATCHET_ROLLOUT_ADDRESS": ports.target(service.name)} if service.name == "rollout" else {}
        found.append(replace(service, environment=environment | address))
        second = f"{service.name}-2"
        if second in ports.by_name:
            prefix = f"RATCHET_{service.name.upper()}_"
            own = {f"{prefix}PORT": ports[second], f"{prefix}METRICS_PORT": ports[f"{second}-metrics"]}
            if service.name == "gateway":
                own[f"{prefix}HTTP_PORT"] = ports[f"{second}-http"]
            else:
                address = {f"{prefix}ADDRESS": ports.target(second), f"{prefix}WORK_DIR": str(home.path / second)}
            texts = {name: str(port) for name, port in own.items()} | address
            found.append(replace(service, name=second, environment=environment | texts, port=ports[second]))
    return found


@contextmanager
def _supervised(home: Home, ports: Ports, services: Sequence[Service]) -> Iterator[None]:
    """In a thread of its own, which lives as long as they do."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(Supervisor(home, ports, services).run(stop)), name="supervisor"
    )
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
