from unittest.mock import AsyncMock

import pytest

from ratchet_kit.errors import Unavailable, Unimplemented
from ratchet_policies import NodeState, directory
from ratchet_policies.directory import Directory
from ratchet_policies.member import STRIKES
from ratchet_testing.waiting import until

from .nodes import MemoryNode, connector


async def test_one_node_knows_the_others() -> None:
    a, b, c = MemoryNode("a", peers=("b",)), MemoryNode("b", peers=("a", "c")), MemoryNode("c")
    async with Directory(["a"], connector(a, b, c)) as found:
        assert found.answering == ["a", "b", "c"], "all of them once it has begun"
    assert all(node.closed for node in (a, b, c))


async def test_a_node_says_who_it_is_and_does_not_look_at_itself() -> None:
    a = MemoryNode("a", peers=("own",))
    async with Directory(["own", "a"], connector(a), own="own") as found:
        assert (found.answering, a.heard_of) == (["a"], {"own"})
        found.learn("own")
        assert found.answering == ["a"]


async def test_three_strikes_and_it_is_away_until_it_answers() -> None:
    a = MemoryNode("a")
    async with Directory(["a"], connector(a)) as found:
        [member] = found.members
        a.fault = Unavailable("connection refused")
        await until(lambda: member.strikes == STRIKES - 1)
        assert member.is_up
        await until(lambda: not member.is_up)
        assert (member.node.state, member.node.detail) == (NodeState.AWAY, "connection refused")
        a.fault = None
        await until(lambda: member.is_up)
        assert member.node.state is NodeState.SERVING


async def test_a_look_that_breaks_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    a, answer = MemoryNode("a"), AsyncMock(side_effect=ValueError("what another version of the service says"))
    async with Directory(["a"], connector(a)) as found:
        with monkeypatch.context() as broken:
            broken.setattr(a, "report", answer)
            await until(lambda: answer.await_count > 1)
        a.fault = Unavailable("connection refused")
        await until(lambda: not found.answering)
        a.fault = None
        await until(lambda: found.answering == ["a"])


async def test_a_node_that_was_away_for_long_is_forgotten_and_a_seed_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = MemoryNode("a", peers=("b",)), MemoryNode("b")
    async with Directory(["a"], connector(a, b)) as found:
        monkeypatch.setattr(directory, "FORGET", 0.02)
        a.peers = ()
        a.fault = b.fault = Unavailable("connection refused")
        await until(lambda: [member.address for member in found.members] == ["a"])
    assert b.closed


async def test_a_seed_may_be_another_name_of_a_node() -> None:
    service, node = MemoryNode("service", advertised="node"), MemoryNode("node", advertised="node")
    async with Directory(["service"], connector(service, node)) as found:
        assert found.answering == ["node"]
        node.fault = Unavailable("connection refused")
        await until(lambda: found.answering == ["service"])


async def test_a_service_that_knows_nothing_of_nodes_is_one() -> None:
    a = MemoryNode("a", fault=Unimplemented("GetNode"))
    async with Directory(["a"], connector(a)) as found:
        assert found.answering == ["a"]
