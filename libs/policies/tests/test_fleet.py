"""Requests and policies over several nodes, some of which fail, hang or are drained."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from ratchet_policies import (
    Policy,
    PolicySpec,
    PolicyState,
    Purpose,
    Sampling,
    TextPrompt,
    directory,
    ensure_ready,
)
from ratchet_policies.fleet import Fleet
from ratchet_testing.waiting import until

from .nodes import MemoryNode, connector

WEIGHTS = "sha256:mine"
SPEC = PolicySpec("starter@1", "/models/starter", WEIGHTS)
READY = Policy(SPEC.name, PolicyState.READY, WEIGHTS)
PROMPT = TextPrompt("def f")


@pytest.fixture
def nodes() -> list[MemoryNode]:
    """Two nodes that have the policy."""
    return [MemoryNode(address, policies={SPEC.name: READY}) for address in ("a", "b")]


async def messages(has: str) -> AsyncIterator[pb.UpdateWeightsRequest]:
    yield pb.UpdateWeightsRequest()


@asynccontextmanager
async def opened(*nodes: MemoryNode) -> AsyncIterator[Fleet]:
    async with Fleet([node.address for node in nodes], connector(*nodes)) as engine:
        yield engine


async def answer(engine: Fleet, text: str = "def f") -> str:
    generation = await engine.generate(SPEC.name, WEIGHTS, TextPrompt(text), Sampling())
    return generation.completions[0].text


async def streamed(engine: Fleet) -> list[str]:
    return [delta.completion.text async for delta in engine.stream(SPEC.name, WEIGHTS, PROMPT, Sampling())]


class TestChoice:
    async def test_prompts_stay_where_their_beginning_is_and_are_spread(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            assert len({await answer(engine) for _ in range(5)}) == 1
            counts = Counter([await answer(engine, f"prompt {index}") for index in range(60)])
        assert min(counts.values()) > 15

    async def test_the_load_of_other_callers_counts(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            home = await answer(engine)
            busy, idle = sorted(nodes, key=lambda node: node.address != home)
            busy.others = 20
            await until(lambda: engine.nodes()[nodes.index(busy)].sequences == 20)
            assert await answer(engine) == idle.address

    async def test_only_engines_with_the_weights_are_asked(self, nodes: list[MemoryNode]) -> None:
        nodes[0].policies[SPEC.name] = Policy(SPEC.name, PolicyState.READY, "sha256:old")
        async with opened(*nodes, MemoryNode("c")) as engine:
            assert {await answer(engine, f"prompt {index}") for index in range(20)} == {"b"}

    async def test_a_policy_that_was_loaded_a_moment_ago_is_found(self, nodes: list[MemoryNode]) -> None:
        new = MemoryNode("c")
        async with opened(MemoryNode("a"), new) as engine:
            new.policies[SPEC.name] = READY
            assert await answer(engine) == "c"


class TestFaults:
    @pytest.mark.parametrize("index", [0, 1])
    async def test_another_engine_answers_for_one_that_is_gone(self, nodes: list[MemoryNode], index: int) -> None:
        nodes[index].fault = Unavailable("connection refused")
        async with opened(*nodes) as engine:
            nodes[index].fault = None
            await until(lambda: all(node.engines for node in engine.nodes()))
            nodes[index].fault = Unavailable("connection refused")
            answers = await asyncio.gather(*(answer(engine, f"prompt {number}") for number in range(40)))
            assert set(answers) == {nodes[1 - index].address}
            assert await streamed(engine) == [nodes[1 - index].address] * 3

    async def test_a_stream_that_has_begun_is_not_sent_again(self, nodes: list[MemoryNode]) -> None:
        for node in nodes:
            node.breaks_after = 1
        async with opened(*nodes) as engine:
            with pytest.raises(Unavailable, match="engine died"):
                await streamed(engine)
        assert sum(node.answered for node in nodes) == 1

    async def test_an_engine_that_fails_is_left_alone(self, nodes: list[MemoryNode]) -> None:
        nodes[0].failing = Unavailable("the engine is being restarted")
        async with opened(*nodes) as engine:
            for index in range(40):
                assert await answer(engine, f"prompt {index}") == "b"
            nodes[0].failing = None
            assert {await answer(engine, f"prompt {index}") for index in range(20)} == {"b"}, "the pause is not over"

    async def test_it_answers_while_one_engine_may(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            await until(lambda: engine.answers(SPEC.name, WEIGHTS))
            assert not engine.answers(SPEC.name, "sha256:other")
            for node in nodes:
                node.fault = Unavailable("connection refused")
            for _ in range(3):
                with pytest.raises(Unavailable):
                    await answer(engine)
            assert not engine.answers(SPEC.name, WEIGHTS)

    async def test_what_hangs_is_given_up_once_the_node_is_away(
        self, nodes: list[MemoryNode], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with opened(*nodes) as engine:
            home = await answer(engine)
            hung = next(node for node in nodes if node.address == home)
            original = hung.report
            hung.hangs = True

            async def no_report(caller: str = "") -> object:
                async with asyncio.timeout(0.01):
                    try:
                        return await original(caller)
                    except asyncio.CancelledError:
                        raise Unavailable("no answer in time") from None

            monkeypatch.setattr(hung, "report", no_report)
            async with asyncio.timeout(2):
                assert await answer(engine) != home

    async def test_the_callers_fault_is_not_tried_again(self, nodes: list[MemoryNode]) -> None:
        for node in nodes:
            node.failing = InvalidArgument("the prompt is too long")
        async with opened(*nodes) as engine:
            with pytest.raises(InvalidArgument):
                await answer(engine)

    async def test_a_single_node_is_waited_for_a_while(self, nodes: list[MemoryNode]) -> None:
        [node, _] = nodes
        async with opened(node) as engine:
            node.fault = Unavailable("connection refused")
            waiting = asyncio.create_task(answer(engine))
            await asyncio.sleep(0.03)
            node.fault = None
            assert await waiting == "a"
            node.fault = Unavailable("connection refused")
            with pytest.raises(Unavailable, match="connection refused"):
                await answer(engine)

    async def test_a_policy_that_is_nowhere_is_lost_at_once(self) -> None:
        async with opened(MemoryNode("a"), MemoryNode("b")) as engine:
            with pytest.raises(NotFound):
                await answer(engine)

    async def test_other_weights_say_more_than_none(self, nodes: list[MemoryNode]) -> None:
        nodes[0].policies[SPEC.name] = Policy(SPEC.name, PolicyState.READY, "sha256:old")
        del nodes[1].policies[SPEC.name]
        async with opened(*nodes) as engine:
            with pytest.raises(FailedPrecondition):
                await answer(engine)


class TestDrain:
    async def test_a_drained_node_is_passed_over(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            await engine.drain("a", True)
            assert {await answer(engine, f"prompt {index}") for index in range(20)} == {"b"}
            await engine.drain("a", False)
            await until(lambda: all(not node.draining for node in nodes))

    async def test_its_policies_are_loaded_elsewhere(self) -> None:
        a, b = MemoryNode("a", policies={SPEC.name: READY}), MemoryNode("b")
        async with opened(a, b) as engine:
            await engine.drain("a", True)
            await until(lambda: engine.nodes()[0].state == "draining")
            with pytest.raises(NotFound):
                await answer(engine)
            await ensure_ready(engine, SPEC)
            assert await answer(engine) == "b"

    async def test_an_unknown_one_is_not_found(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            with pytest.raises(NotFound, match="nowhere"):
                await engine.drain("nowhere", True)


class TestPlaces:
    async def test_a_policy_is_loaded_where_the_most_room_is(self) -> None:
        a, b = MemoryNode("a", capacity=2), MemoryNode("b", capacity=3)
        async with opened(a, b) as engine:
            await engine.load(SPEC)
        assert list(b.policies) == [SPEC.name]

    async def test_the_next_one_is_tried_where_there_is_none_after_all(self) -> None:
        a, b = MemoryNode("a", capacity=3), MemoryNode("b", capacity=1)
        async with opened(a, b) as engine:
            a.capacity = 0
            await engine.load(SPEC)
            b.capacity = 1
            with pytest.raises(ResourceExhausted):
                await engine.load(PolicySpec("starter@2", "/models/starter"))
        assert list(b.policies) == [SPEC.name]

    async def test_replicas_are_made_where_there_is_room_and_what_is_kept_is_in_use(self) -> None:
        a, b, full = MemoryNode("a"), MemoryNode("b"), MemoryNode("c", capacity=0)
        async with opened(a, b, full) as engine:
            await engine.load(SPEC)
            await until(lambda: any(node.engines for node in engine.nodes()))
            await engine.keep(SPEC, 3)
            assert [list(node.policies) for node in (a, b, full)] == [[SPEC.name], [SPEC.name], []]
            assert a.touched + b.touched == 1

    async def test_a_replica_that_is_lost_is_made_again(self, nodes: list[MemoryNode]) -> None:
        spare = MemoryNode("c")
        async with opened(*nodes, spare) as engine:
            nodes[0].fault = Unavailable("connection refused")
            await until(lambda: engine.nodes()[0].state == "away")
            await engine.keep(SPEC, 2)
        assert SPEC.name in spare.policies

    async def test_unloading_and_listing_are_over_all_nodes(self, nodes: list[MemoryNode]) -> None:
        async with opened(*nodes) as engine:
            assert [policy.name for policy in await engine.all()] == [SPEC.name]
            await engine.unload(SPEC.name)
            assert not any(node.policies for node in nodes)
            with pytest.raises(NotFound):
                await engine.unload(SPEC.name)

    async def test_a_node_that_was_away_comes_back_without_what_was_unloaded(self, nodes: list[MemoryNode]) -> None:
        lost, other = nodes
        async with opened(*nodes) as engine:
            lost.fault = Unavailable("connection refused")
            await until(lambda: engine.nodes()[0].state == "away")
            await engine.unload(SPEC.name)
            assert lost.policies
            assert not other.policies
            lost.fault = None
            await until(lambda: not lost.policies)

    async def test_what_is_loaded_again_meanwhile_stays_with_a_node_that_was_away(
        self, nodes: list[MemoryNode]
    ) -> None:
        lost, other = nodes
        async with opened(*nodes) as engine:
            lost.fault = Unavailable("connection refused")
            await until(lambda: engine.nodes()[0].state == "away")
            await engine.unload(SPEC.name)
            await engine.load(SPEC)
            lost.fault = None
            await until(lambda: engine.nodes()[0].state != "away")
            await asyncio.sleep(0.05)
        assert lost.policies
        assert other.policies

    async def test_a_holder_that_does_not_answer_just_now_has_it_still(
        self, nodes: list[MemoryNode], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, _ = nodes
        other = MemoryNode("z")
        async with opened(a, other) as engine:
            monkeypatch.setattr(directory, "AGAIN", 0.2)
            a.fault = Unavailable("connection refused")
            with pytest.raises(Unavailable):
                await engine.get(SPEC.name)
            await until(lambda: engine.nodes()[0].state == "away")
            with pytest.raises(NotFound):
                await engine.get(SPEC.name)

    async def test_new_weights_go_where_the_policy_is(self, nodes: list[MemoryNode]) -> None:
        async with opened(MemoryNode("z"), nodes[0]) as engine:
            await engine.update(SPEC.name, messages, 1.0)
            assert (await engine.get(SPEC.name)).policy_id == "sha256:updated"
            generation = await engine.generate(SPEC.name, "sha256:updated", PROMPT, Sampling())
        assert generation.completions[0].text == "a"

    async def test_new_weights_go_to_all_that_have_the_policy_each_by_what_it_has(
        self, nodes: list[MemoryNode]
    ) -> None:
        a, b = nodes
        b.policies[SPEC.name] = replace(b.policies[SPEC.name], policy_id="sha256:base")
        asked = list[str]()

        def noted(has: str) -> AsyncIterator[pb.UpdateWeightsRequest]:
            asked.append(has)
            return messages(has)

        async with opened(*nodes) as engine:
            assert len(await engine.update(SPEC.name, noted, 1.0)) == 2
        assert sorted(asked) == sorted([SPEC.policy_id, "sha256:base"])
        assert {node.policies[SPEC.name].policy_id for node in (a, b)} == {"sha256:updated"}

    async def test_an_engine_that_refuses_new_weights_loses_the_policy_and_gets_it_again(
        self, nodes: list[MemoryNode]
    ) -> None:
        _, b = nodes
        b.refusing = DataLoss("the weights are not these")
        async with opened(*nodes) as engine:
            assert len(await engine.update(SPEC.name, messages, 1.0)) == 1
            assert SPEC.name not in b.policies
            generation = await engine.generate(SPEC.name, "sha256:updated", PROMPT, Sampling())
            assert generation.completions[0].text == "a"
            await until(lambda: not engine.nodes()[1].engines)
            await engine.keep(SPEC, 2)
            assert SPEC.name in b.policies
            b.refusing = None
            await engine.update(SPEC.name, messages, 1.0)
        assert b.policies[SPEC.name].policy_id == "sha256:updated"

    async def test_new_weights_that_nobody_takes_are_an_error(self, nodes: list[MemoryNode]) -> None:
        for node in nodes:
            node.refusing = DataLoss("the weights are not these")
        async with opened(*nodes) as engine:
            with pytest.raises(DataLoss):
                await engine.update(SPEC.name, messages, 1.0)
        assert all(node.policies for node in nodes)

    async def test_the_policy_of_a_run_is_loaded_on_more_nodes_and_not_again_where_it_is(
        self, nodes: list[MemoryNode]
    ) -> None:
        spare = MemoryNode("c")
        async with opened(*nodes, spare) as engine:
            await engine.keep(replace(SPEC, purpose=Purpose.TRAINING), 3)
        assert SPEC.name in spare.policies
        assert [node.touched for node in nodes] == [0, 0]
