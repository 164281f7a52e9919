"""A second engine for a request whose first one is slow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_policies import Policy, PolicySpec, PolicyState, Sampling, TextPrompt
from ratchet_policies.fleet import Fleet
from ratchet_policies.hedging import Hedging
from ratchet_testing.waiting import until

from .nodes import MemoryNode, connector

WEIGHTS = "sha256:mine"
SPEC = PolicySpec("starter@1", "/models/starter", WEIGHTS)
READY = Policy(SPEC.name, PolicyState.READY, WEIGHTS)
PROMPT = TextPrompt("def f")
ALL = Hedging(timedelta(milliseconds=20), share=1)


@pytest.fixture
def nodes() -> list[MemoryNode]:
    return [MemoryNode(address, policies={SPEC.name: READY}) for address in ("a", "b")]


@asynccontextmanager
async def opened(*nodes: MemoryNode, hedging: Hedging | None = ALL) -> AsyncIterator[Fleet]:
    async with Fleet([node.address for node in nodes], connector(*nodes), hedging) as fleet:
        yield fleet


async def answer(fleet: Fleet) -> str:
    generation = await fleet.generate(SPEC.name, WEIGHTS, PROMPT, Sampling())
    return generation.completions[0].text


async def streamed(fleet: Fleet) -> list[str]:
    async with aclosing(fleet.stream(SPEC.name, WEIGHTS, PROMPT, Sampling())) as deltas:
        return [delta.completion.text async for delta in deltas]


async def home_first(fleet: Fleet, nodes: list[MemoryNode]) -> tuple[MemoryNode, MemoryNode]:
    """The node that is asked for the prompt, and the other."""
    home = await answer(fleet)
    first, second = sorted(nodes, key=lambda node: node.address != home)
    return first, second


def hedged(heard: str) -> float:
    return REGISTRY.get_sample_value("ratchet_rollout_requests_hedged_total", {"heard": heard}) or 0.0


async def test_the_second_is_heard_and_the_first_is_cancelled(nodes: list[MemoryNode]) -> None:
    before = hedged("second")
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow = asyncio.Event()
        assert await answer(fleet) == second.address
        assert await streamed(fleet) == [second.address] * 3
        assert first.under_way == 0, "what is slower is cancelled"
    assert hedged("second") == before + 2


async def test_the_first_is_heard_where_it_answers_first_after_all(nodes: list[MemoryNode]) -> None:
    before = hedged("first")
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow, second.slow = asyncio.Event(), asyncio.Event()
        asking = asyncio.create_task(streamed(fleet))
        await until(lambda: second.under_way == 1)
        first.slow.set()
        assert await asking == [first.address] * 3
        assert second.under_way == 0
    assert hedged("first") == before + 1


async def test_it_is_off_by_default(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes, hedging=None) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow = asyncio.Event()
        asking = asyncio.create_task(answer(fleet))
        await asyncio.sleep(0.1)
        assert second.answered == 0
        first.slow.set()
        assert await asking == first.address


async def test_no_more_than_its_share_is_hedged(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes, hedging=Hedging(timedelta(milliseconds=5), share=0.25)) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow = asyncio.Event()
        asking = [asyncio.create_task(answer(fleet)) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert second.answered == 0, "of three requests a quarter is none"
        first.slow.set()
        await asyncio.gather(*asking)
        first.slow = asyncio.Event()
        assert await answer(fleet) == second.address, "the fourth"


async def test_a_single_engine_is_asked_once(nodes: list[MemoryNode]) -> None:
    [node, _] = nodes
    async with opened(node) as fleet:
        node.slow = asyncio.Event()
        asking = asyncio.create_task(answer(fleet))
        await asyncio.sleep(0.1)
        assert node.under_way == 1
        node.slow.set()
        assert await asking == "a"
        assert node.answered == 1


async def test_an_engine_without_the_weights_is_no_second_one(nodes: list[MemoryNode]) -> None:
    del nodes[1].policies[SPEC.name]
    async with opened(*nodes) as fleet:
        nodes[0].slow = asyncio.Event()
        asking = asyncio.create_task(answer(fleet))
        await asyncio.sleep(0.1)
        assert not asking.done()
        nodes[0].slow.set()
        assert await asking == "a"


async def test_a_second_one_that_fails_leaves_the_first(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow, second.failing = asyncio.Event(), Unavailable("the engine died")
        asking = asyncio.create_task(answer(fleet))
        await asyncio.sleep(0.1)
        first.slow.set()
        assert await asking == first.address


async def test_where_both_fail_it_is_tried_again(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow = second.slow = asyncio.Event()
        first.failing = second.failing = Unavailable("the engine died")
        asking = asyncio.create_task(streamed(fleet))
        await until(lambda: second.under_way == 1)
        first.slow.set()
        await until(lambda: first.under_way == second.under_way == 0)
        first.failing = second.failing = None
        assert len(await asking) == 3


async def test_the_callers_fault_is_told_at_once(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow, second.failing = asyncio.Event(), InvalidArgument("the prompt is too long")
        with pytest.raises(InvalidArgument):
            await answer(fleet)


async def test_a_caller_that_leaves_leaves_both(nodes: list[MemoryNode]) -> None:
    async with opened(*nodes) as fleet:
        first, second = await home_first(fleet, nodes)
        first.slow, second.slow = asyncio.Event(), asyncio.Event()
        asking = asyncio.create_task(answer(fleet))
        await until(lambda: second.under_way == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert first.under_way == second.under_way == 0
