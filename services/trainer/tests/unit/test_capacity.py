from typing import Any

import pytest

from trainer_service.domain.cluster.capacity import Demand, Node, Room

GIB = 1 << 30


def demand(nodes: int = 1, accelerators: int = 1, policies: int = 1, memory: int = 0) -> Demand:
    return Demand(nodes, accelerators, controllers=3, policies=policies, memory_bytes=memory)


def room(*nodes: tuple[int, int], runs: int = 9, **limits: Any) -> Room:
    return Room(runs, [Node(*node) for node in nodes], **limits)


ONE = room((32, 2))


@pytest.mark.parametrize(
    ("there", "one", "taken", "lacks"),
    [
        (ONE, demand(accelerators=2), [], ""),
        (ONE, demand(), [demand()], ""),
        (ONE, demand(accelerators=2), [demand()], "2 accelerators: 1 of 2 are free"),
        (ONE, demand(), [demand(), demand()], "1 accelerator: 0 of 2 are free"),
        (room((32, 2), runs=1), demand(), [demand()], "the one place for runs"),
        (room((32, 8), runs=2), demand(), [demand()] * 2, "one of the 2 places for runs"),
        (room((7, 2)), demand(), [demand()], "CPUs: Ray has 7 in all, and runs reserve some of them"),
        (room((8, 2)), demand(), [demand()], ""),
        # The ranks of one node are on one machine.
        (room((32, 4), (32, 4)), demand(accelerators=8), [], "8 accelerators: 8 of 8 are free"),
        (room((32, 4), (32, 4)), demand(nodes=2, accelerators=4), [], ""),
        (room((32, 4)), demand(nodes=2, accelerators=4), [], "2 nodes with 4 accelerators each: 4 of 4 are free"),
        (room((32, 8)), demand(nodes=2, accelerators=4), [], ""),
        # The small ones lie side by side, so that the large one has a machine.
        (room((32, 4), (32, 4)), demand(accelerators=4), [demand(accelerators=2)] * 2, ""),
        (ONE, demand(memory=3 * GIB), [demand(memory=3 * GIB)], ""),
    ],
)
def test_what_there_is_too_little_of(there: Room, one: Demand, taken: list[Demand], lacks: str) -> None:
    assert there.lacks(one, taken) == lacks


def test_memory_and_places_of_the_rollout_service_are_shared() -> None:
    there = room((32, 2), policies=[1], memory_bytes=5 * GIB)
    assert there.lacks(demand(memory=3 * GIB), []) == ""
    taken = [demand(policies=0, memory=3 * GIB)]
    assert there.lacks(demand(memory=3 * GIB), taken) == "3.0 GiB of memory: 2.0 of 5.0 are free"
    assert there.lacks(demand(), [demand()]) == "a place in the rollout service, which has 1 for training"
    assert there.lacks(demand(policies=0), [demand()]) == ""


def test_a_place_is_too_small_only_for_what_no_waiting_helps() -> None:
    assert room((32, 1), policies=[0]).is_too_small_for(demand()) == ""
    assert room().is_too_small_for(demand()) == "1 accelerator: 0 of 0 are free"


def test_each_engine_of_a_run_is_on_a_node_of_its_own() -> None:
    two = demand(policies=2)
    assert room((32, 8), policies=[2]).lacks(two, []) == (
        "2 nodes of the rollout service: their places for training are [2]"
    )
    assert room((32, 8), policies=[1, 1]).lacks(two, []) == ""
    assert room((32, 8), policies=[1, 1]).lacks(two, [demand()]).startswith("2 nodes of the rollout service")
    assert room((32, 8), policies=[2, 1]).lacks(two, [demand()]) == ""
    assert room((32, 8), policies=[2, 2, 1]).lacks(two, [two]) == ""
    assert room((32, 8), policies=[3, 1]).lacks(two, [two]).startswith("2 nodes of the rollout service")
