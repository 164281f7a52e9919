"""One engine of a healthy node hangs: its process, or the one in which it computes, is stopped (SIGSTOP)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.settings import ServiceSettings
from ratchet_policies import NodeState, PolicySpec, PolicyState, Sampling, TokenPrompt, ensure_ready
from ratchet_policies.fleet import Fleet
from ratchet_testing import free_port, serving
from rollout_service.adapters.memory import MemoryFolders, MemoryJournal, content_id
from rollout_service.adapters.vllm.engine import EngineDefaults, VllmFactory
from rollout_service.main import provision
from rollout_service.settings import Settings

from ..processes import ProcessForks, freeze, members

pytestmark = pytest.mark.integration

BASE = content_id(b"base")
SPEC = PolicySpec("starter@1", "/base", BASE)
DEFAULTS = EngineDefaults("cpu", 8, 1 << 20, 1, 0.9, True, timedelta(seconds=60), max_silence=timedelta(seconds=3))


@dataclass(slots=True)
class Running:
    address: str
    forks: ProcessForks


@asynccontextmanager
async def node(folder: Path, peers: str = "") -> AsyncIterator[Running]:
    address = f"127.0.0.1:{free_port()}"
    running = Running(address, ProcessForks())
    factory = VllmFactory(DEFAULTS, running.forks, folder)  # type: ignore[arg-type]
    folders, journal = MemoryFolders({"/base": BASE}), MemoryJournal()
    settings = Settings(address=address, peers=peers)
    served = ServiceSettings(port=int(address.rpartition(":")[2]), grace=timedelta(0), log_level="WARNING")
    async with (
        provision(settings, engines=factory, folders=folders, journal=journal) as service,
        serving(service.add_to, settings=served),
    ):
        yield running


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Running]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(node(tmp_path))
        yield [first, await stack.enter_async_context(node(tmp_path, peers=first.address))]


async def ask(fleet: Fleet, number: int) -> str:
    generation = await fleet.generate(SPEC.name, BASE, TokenPrompt((number, 1)), Sampling(max_tokens=2))
    return generation.policy_id


def ready(fleet: Fleet) -> list[str]:
    engines = [(one.address, one.engine(SPEC.name)) for one in fleet.nodes() if one.state is NodeState.SERVING]
    return [address for address, engine in engines if engine and engine.state is PolicyState.READY]


@pytest.mark.parametrize("part", ["engine", "core"])
async def test_every_request_is_answered_and_the_engine_is_started_again(nodes: list[Running], part: str) -> None:
    async with Fleet.of(nodes[0].address) as fleet:
        await ensure_ready(fleet, SPEC)
        async with asyncio.timeout(60):
            while len(ready(fleet)) < 2:
                await fleet.keep(SPEC, 2)
                await asyncio.sleep(0.05)
        await asyncio.gather(*(ask(fleet, number) for number in range(20)))

        hung = nodes[0].forks.started[0]
        freeze(hung.pid, part)
        async with asyncio.timeout(60):
            assert set(await asyncio.gather(*(ask(fleet, number) for number in range(40)))) == {BASE}
            while len(nodes[0].forks.started) < 2 or len(ready(fleet)) < 2:
                await asyncio.sleep(0.05)
        assert members(hung.pid) == []
        assert len(nodes[1].forks.started) == 1
