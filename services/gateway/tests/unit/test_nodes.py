"""The rollout nodes, as one service among others."""

import pytest

from gateway_service.adapters.nodes import NodesHealth
from gateway_service.domain.platform import Health, State
from ratchet_policies import Node, NodeState

from ..doubles import ScriptedNodes

SERVING, DRAINING, AWAY = NodeState.SERVING, NodeState.DRAINING, NodeState.AWAY


@pytest.mark.parametrize(
    ("states", "state", "detail"),
    [
        ([SERVING, SERVING], State.SERVING, ""),
        ([SERVING, AWAY], State.SERVING, "1 of 2 nodes away: node 1: refused"),
        ([AWAY, AWAY], State.AWAY, "2 of 2 nodes away: node 0: refused"),
        ([DRAINING, DRAINING], State.NOT_SERVING, "all nodes are drained"),
        ([DRAINING, AWAY], State.NOT_SERVING, "1 of 2 nodes away: node 1: refused"),
    ],
)
async def test_rollout_serves_where_a_node_does(states: list[NodeState], state: State, detail: str) -> None:
    nodes = ScriptedNodes(
        {
            f"node {index}": Node(f"node {index}", each, detail="refused" if each is AWAY else "")
            for index, each in enumerate(states)
        }
    )
    assert await NodesHealth(nodes).check() == Health(state, detail=detail)


async def test_it_says_that_an_engine_is_started_again() -> None:
    said = "starter@1 is being started again: vLLM hangs"
    nodes = ScriptedNodes({"a": Node("a", SERVING), "b": Node("b", SERVING, detail=said)})
    assert await NodesHealth(nodes).check() == Health(State.SERVING, detail=f"b: {said}")
