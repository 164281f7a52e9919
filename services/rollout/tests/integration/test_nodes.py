"""Two nodes behind gRPC, over scripted engines, and callers that know one of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

import pytest

from ratchet_kit.settings import ServiceSettings
from ratchet_policies import NodeState, PolicySpec, Sampling, TokenPrompt, ensure_ready
from ratchet_policies.fleet import Fleet
from ratchet_testing import free_port, serving
from rollout_service.main import provision
from rollout_service.settings import Settings

from ..memory import MemoryFolders, MemoryJournal, ScriptedEngines, content_id

pytestmark = pytest.mark.integration

BASE = content_id(b"base")
SPEC = PolicySpec("starter@1", "/base", BASE)


@dataclass(slots=True)
class Running:
    """A node; mutable: a test ends it."""

    address: str
    engines: ScriptedEngines
    stack: AsyncExitStack


async def node(peers: str = "") -> Running:
    address = f"127.0.0.1:{free_port()}"
    running = Running(address, ScriptedEngines(), AsyncExitStack())
    service = await running.stack.enter_async_context(
        provision(
            Settings(address=address, peers=peers),
            engines=running.engines,
            folders=MemoryFolders({"/base": BASE}),
            journal=MemoryJournal(),
        )
    )
    served = ServiceSettings(port=int(address.rpartition(":")[2]), grace=timedelta(0), log_level="WARNING")
    await running.stack.enter_async_context(serving(service.add_to, settings=served))
    return running


@pytest.fixture
async def nodes() -> AsyncIterator[list[Running]]:
    first = await node()
    second = await node(peers=first.address)
    yield [first, second]
    await first.stack.aclose()
    await second.stack.aclose()


async def both(fleet: Fleet) -> None:
    async with asyncio.timeout(10):
        while len([one for one in fleet.nodes() if one.state is NodeState.SERVING]) < 2:
            await asyncio.sleep(0.01)


async def ask(fleet: Fleet, number: int) -> str:
    generation = await fleet.generate(SPEC.name, BASE, TokenPrompt((number, 1)), Sampling(max_tokens=2))
    return generation.policy_id


async def test_a_node_that_comes_is_found_and_one_that_ends_is_made_up_for(nodes: list[Running]) -> None:
    first, second = nodes
    async with Fleet.of(first.address) as fleet:
        await both(fleet)
        await ensure_ready(fleet, SPEC)
        async with asyncio.timeout(10):
            while not (first.engines.started and second.engines.started):
                await fleet.keep(SPEC, 2)
                await asyncio.sleep(0.05)
        assert set(await asyncio.gather(*(ask(fleet, number) for number in range(50)))) == {BASE}

        asking = asyncio.gather(*(ask(fleet, number) for number in range(200)))
        await first.stack.aclose()  # the one that the caller was given
        assert set(await asking) == {BASE}
        assert set(await asyncio.gather(*(ask(fleet, number) for number in range(50)))) == {BASE}


async def test_a_drained_node_ends_what_it_has(nodes: list[Running]) -> None:
    async with Fleet.of(nodes[0].address) as fleet:
        await both(fleet)
        await ensure_ready(fleet, SPEC)
        holder = next(one for one in nodes if one.engines.started)
        [engine] = holder.engines.started
        engine.going.clear()
        running = asyncio.create_task(ask(fleet, 1))
        async with asyncio.timeout(10):
            while not engine.generating:
                await asyncio.sleep(0.01)
        drained = await fleet.drain(holder.address, True)
        assert (drained.state, drained.sequences) == (NodeState.DRAINING, 1)
        await ensure_ready(fleet, SPEC, timeout=timedelta(seconds=10))
        assert await ask(fleet, 2) == BASE
        assert not running.done()
        engine.going.set()
        assert await running == BASE
