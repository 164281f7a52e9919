"""Two rollout nodes with the starter model under requests, while each is killed, stopped, hung and drained in turn: no
request is answered with a fault unless it had its first piece before."""

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from ratchet.common.v1 import node_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet_client import Client
from ratchet_kit.service_auth import TOKEN
from ratchet_local.services import environments_folder, missing_environments, models_folder
from ratchet_testing.ports import free_port
from ratchet_testing.redis_server import redis_server
from ratchet_testing.replicas import Replica

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(900)]

KEY = "rk_of_the_test_of_rollout_nodes_and_faults"
CLIENTS = 4
SETTLE_S = 90.0
HUNG_S = 12.0
NOWHERE = "127.0.0.1:1"


@dataclass(slots=True)
class Answers:
    """What clients saw. Mutable: they add to it."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Of requests that had no first piece."""
    slowest: float = 0.0


@dataclass(frozen=True, slots=True)
class Nodes:
    """Two rollout nodes, of which the gateway was given the first."""

    replicas: list[Replica]
    client: Client
    url: str

    def ready(self) -> int:
        """Engines of the version that answer."""
        ready = node_pb2.Node.Engine.STATE_READY
        serving = [node for node in self.client.nodes.list() if node.state == node_pb2.Node.STATE_SERVING]
        return sum(engine.state == ready for node in serving for engine in node.engines)

    async def settled(self) -> None:
        """Each node has an engine of the version."""
        deadline = time.monotonic() + SETTLE_S
        while await asyncio.to_thread(self.ready) < len(self.replicas):
            assert time.monotonic() < deadline, [str(node) for node in self.client.nodes.list()]
            await asyncio.sleep(0.5)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    missing = set(missing_environments(environments_folder())) & {"rollout"}
    if missing:
        pytest.skip("the environment rollout is not built: make setup")
    folder = tmp_path_factory.mktemp("nodes")
    with ExitStack() as stack:
        registry, gateway, *rollouts = _built(folder, stack.enter_context(redis_server()))
        for replica in (registry, *rollouts, gateway):
            replica.start()
            stack.callback(replica.end)
        for replica in (registry, *rollouts, gateway):
            asyncio.run(replica.is_up())
        url = f"http://127.0.0.1:{gateway.environment['RATCHET_GATEWAY_HTTP_PORT']}"
        client = stack.enter_context(Client(url, KEY, timeout_s=120))
        client.models.create_version("starter", str(models_folder() / "starter"))
        version = client.models.wait_version("starter", 1)
        assert version.state == registry_pb2.Version.STATE_READY, version.failure
        client.chat("starter@1", "Write solve(xs).", max_tokens=4)
        yield Nodes(rollouts, client, url)


def _built(folder: Path, redis_url: str) -> list[Replica]:
    """Registry, gateway and two nodes, not started yet."""
    common = {
        "REDIS_URL": redis_url,
        "RATCHET_HOME": str(folder),
        "ARTIFACT_URL": str(folder / "artifacts"),
        "RATCHET_SOURCES": str(models_folder()),
        TOKEN: "a-token-of-the-test-of-rollout-nodes",
    }
    rollout_python = str(environments_folder() / "rollout" / "bin" / "python")
    ports = [free_port(), free_port()]
    rollouts = [
        Replica(
            "rollout",
            common
            | {
                "RATCHET_ROLLOUT_ADDRESS": f"127.0.0.1:{port}",
                "RATCHET_ROLLOUT_PEERS": f"127.0.0.1:{ports[0]}",
                "RATCHET_ROLLOUT_WORK_DIR": str(folder / f"rollout-{port}"),
                "RATCHET_ROLLOUT_THREADS": "1",
                "RATCHET_ROLLOUT_KV_CACHE_BYTES": str(64 << 20),
            },
            folder / f"rollout-{port}.log",
            port,
            python=rollout_python,
        )
        for port in ports
    ]
    database = {service: f"sqlite:///{folder}/{service}.db" for service in ("registry", "gateway")}
    registry = Replica("registry", common | {"DATABASE_URL": database["registry"]}, folder / "registry.log")
    registry.environment = dict(registry.environment) | {"RATCHET_REGISTRY_EVAL_TARGET": NOWHERE}
    targets = {"registry": registry.target, "rollout": rollouts[0].target}
    peers = {
        f"RATCHET_GATEWAY_{peer.upper()}_TARGET": targets.get(peer, NOWHERE)
        for peer in ("trainer", "rollout", "sandbox", "eval", "registry")
    }
    own = {
        "DATABASE_URL": database["gateway"],
        "RATCHET_GATEWAY_ADMIN_KEY": KEY,
        "RATCHET_GATEWAY_LOAD_WAIT": "110",  # for the first engine, on a machine that is busy
        "RATCHET_GATEWAY_HTTP_PORT": str(free_port()),
    }
    return [registry, Replica("gateway", common | peers | own, folder / "gateway.log"), *rollouts]


@asynccontextmanager
async def traffic(nodes: Nodes) -> AsyncIterator[Answers]:
    """Clients that ask one request after the other, every second one for a stream."""
    answers, stop = Answers(), asyncio.Event()
    limits = httpx.Timeout(120)
    async with httpx.AsyncClient(
        base_url=nodes.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=limits
    ) as http:
        clients = [asyncio.create_task(_ask(http, number, answers, stop)) for number in range(CLIENTS)]
        try:
            yield answers
        finally:
            stop.set()
            await asyncio.gather(*clients)


async def _ask(http: httpx.AsyncClient, client: int, answers: Answers, stop: asyncio.Event) -> None:
    for number in itertools.count():
        if stop.is_set():
            return
        text = f"Write solve(xs) that returns the sum of xs, way {client}.{number}."
        body = {"model": "starter@1", "messages": [{"role": "user", "content": text}], "max_tokens": 48}
        started = time.monotonic()
        if number % 2:
            await _stream(http, body, answers)
        else:
            reply = await http.post("/v1/chat/completions", json=body)
            answers.counts[f"whole {reply.status_code}"] += 1
            if reply.status_code != 200:
                answers.faults.append(reply.text)
        answers.slowest = max(answers.slowest, time.monotonic() - started)


async def _stream(http: httpx.AsyncClient, body: dict[str, object], answers: Answers) -> None:
    pieces = 0
    async with http.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as reply:
        async for line in reply.aiter_lines():
            if '"error"' in line:
                answers.counts["stream broken"] += 1
                if not pieces:
                    answers.faults.append(line)
                return
            pieces += '"content"' in line
        answers.counts[f"stream {reply.status_code}"] += 1
        if reply.status_code != 200:
            answers.faults.append(str(reply.status_code))


async def kill(nodes: Nodes, index: int) -> None:
    nodes.replicas[index].kill()
    await asyncio.sleep(5)
    nodes.replicas[index].start()


async def end(nodes: Nodes, index: int) -> None:
    await asyncio.to_thread(nodes.replicas[index].end)
    await asyncio.sleep(2)
    nodes.replicas[index].start()


async def hang(nodes: Nodes, index: int) -> None:
    await asyncio.to_thread(nodes.replicas[index].stop_for, HUNG_S)


async def drain(nodes: Nodes, index: int) -> None:
    address = nodes.replicas[index].target
    await asyncio.to_thread(nodes.client.nodes.drain, address)

    def under_way() -> int:
        [node] = [node for node in nodes.client.nodes.list() if node.address == address]
        return sum(engine.sequences for engine in node.engines)

    await asyncio.sleep(1.5)
    while await asyncio.to_thread(under_way):
        await asyncio.sleep(0.2)
    await asyncio.sleep(2)
    assert not await asyncio.to_thread(under_way), "a drained node takes nothing new"
    await asyncio.to_thread(nodes.client.nodes.resume, address)


@pytest.mark.parametrize("fault", [drain, kill, end, hang], ids=lambda fault: fault.__name__)
async def test_no_request_fails_that_had_no_first_piece(
    nodes: Nodes, fault: Callable[[Nodes, int], Awaitable[None]]
) -> None:
    await nodes.settled()
    for index in (0, 1):
        async with traffic(nodes) as answers:
            await asyncio.sleep(2)
            await fault(nodes, index)
            await asyncio.sleep(3)
        sys.stderr.write(f"{fault.__name__} {index}: {dict(answers.counts)}, slowest {answers.slowest:.1f} s\n")
        assert answers.faults == []
        assert sum(answers.counts.values()) > CLIENTS
        await nodes.settled()
