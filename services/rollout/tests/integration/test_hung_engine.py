"""One engine of a healthy node hangs: its process, or the one in which it computes, is stopped (SIGSTOP)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.settings import ServiceSettings
from ratchet_policies import NodeState, PolicySpec, PolicyState, Sampling, TextPrompt, TokenPrompt, ensure_ready
from ratchet_policies.fleet import Fleet
from ratchet_policies.hedging import Hedging
from ratchet_testing import free_port, serving
from rollout_service.adapters.engines.engine import EngineDefaults, EngineProcesses
from rollout_service.main import provision
from rollout_service.settings import Settings

from ..memory import MemoryFolders, MemoryJournal, content_id
from ..processes import ProcessForks, freeze, members

pytestmark = pytest.mark.integration

BASE = content_id(b"base")
SPEC = PolicySpec("starter@1", "/base", BASE)
QUICK, SLOW = timedelta(seconds=3), timedelta(minutes=10)
"""After which an engine hangs."""


@dataclass(slots=True)
class Running:
    address: str
    forks: ProcessForks


@asynccontextmanager
async def node(folder: Path, max_silence: timedelta, peers: str = "") -> AsyncIterator[Running]:
    address = f"127.0.0.1:{free_port()}"
    running = Running(address, ProcessForks())
    defaults = EngineDefaults("cpu", 8, 1 << 20, 1, 0.9, True, timedelta(seconds=60), max_silence=max_silence)
    factory = EngineProcesses(defaults, running.forks, folder)  # type: ignore[arg-type]
    folders, journal = MemoryFolders({"/base": BASE}), MemoryJournal()
    settings = Settings(address=address, peers=peers)
    served = ServiceSettings(port=int(address.rpartition(":")[2]), grace=timedelta(0), log_level="WARNING")
    async with (
        provision(settings, engines=factory, folders=folders, journal=journal) as service,
        serving(service.add_to, settings=served),
    ):
        yield running


@asynccontextmanager
async def two_nodes(folder: Path, max_silence: timedelta) -> AsyncIterator[list[Running]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(node(folder, max_silence))
        yield [first, await stack.enter_async_context(node(folder, max_silence, peers=first.address))]


async def ask(fleet: Fleet, number: int) -> str:
    generation = await fleet.generate(SPEC.name, BASE, TokenPrompt((number, 1)), Sampling(max_tokens=2))
    return generation.policy_id


def ready(fleet: Fleet) -> list[str]:
    engines = [(one.address, one.engine(SPEC.name)) for one in fleet.nodes() if one.state is NodeState.SERVING]
    return [address for address, engine in engines if engine and engine.state is PolicyState.READY]


async def both_ready(fleet: Fleet) -> None:
    await ensure_ready(fleet, SPEC)
    async with asyncio.timeout(60):
        while len(ready(fleet)) < 2:
            await fleet.keep(SPEC, 2)
            await asyncio.sleep(0.05)
    await asyncio.gather(*(ask(fleet, number) for number in range(20)))


@pytest.mark.parametrize("part", ["engine", "core"])
async def test_every_request_is_answered_and_the_engine_is_started_again(tmp_path: Path, part: str) -> None:
    async with two_nodes(tmp_path, QUICK) as nodes, Fleet.of(nodes[0].address) as fleet:
        await both_ready(fleet)
        hung = nodes[0].forks.started[0]
        freeze(hung.pid, part)
        async with asyncio.timeout(60):
            assert set(await asyncio.gather(*(ask(fleet, number) for number in range(40)))) == {BASE}
            while len(nodes[0].forks.started) < 2 or len(ready(fleet)) < 2:
                await asyncio.sleep(0.05)
        assert members(hung.pid) == []
        assert len(nodes[1].forks.started) == 1


async def test_with_hedging_nobody_waits_until_it_is_noticed(tmp_path: Path) -> None:
    hedging = Hedging(timedelta(seconds=0.5), share=1)
    async with (
        two_nodes(tmp_path, SLOW) as nodes,
        Fleet.of(nodes[0].address, hedging=hedging) as fleet,
    ):
        await both_ready(fleet)
        hung = nodes[0].forks.started[0]
        freeze(hung.pid, "core")
        async with asyncio.timeout(60):
            for number in range(10):
                assert await ask(fleet, number) == BASE
        assert [len(one.forks.started) for one in nodes] == [1, 1], "it is not noticed yet"


async def test_one_that_computes_for_longer_is_left_alone(tmp_path: Path) -> None:
    async with node(tmp_path, QUICK) as one, Fleet.of(one.address) as fleet:
        before = await ensure_ready(fleet, SPEC)
        long = TextPrompt(str(2.5 * QUICK.total_seconds()))
        answer = await fleet.generate(SPEC.name, BASE, long, Sampling(max_tokens=2))
        assert answer.completions[0].text == "done"
        computed = (await fleet.get(SPEC.name)).usage.cpu_time - before.usage.cpu_time
        assert computed > timedelta(seconds=1), "by the core, a process that the engine's has started"
        assert len(one.forks.started) == 1
