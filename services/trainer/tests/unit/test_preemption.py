"""Who is next, and who makes room."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainer_service.domain.cluster.capacity import Node, Room
from trainer_service.domain.cluster.preemption import Plan, plan, time_left
from trainer_service.domain.run.run import Run, RunId, Step
from trainer_service.domain.spec.spec import Resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = timedelta(minutes=1)


@pytest.fixture
def make(make_complete_spec: Any) -> Any:
    """Runs are named by their age: "a" is older than "b"."""

    def make_run(id: str, priority: str = "normal", ranks: int = 1, place: str = "", **changes: Any) -> Run:
        spec = make_complete_spec(priority=priority, steps=100, resources=Resources(accelerators_per_node=ranks))
        run = Run.create(RunId(id), spec, NOW + LATER * ord(id[0]))
        return replace(run.start(NOW, place).begin(1, NOW) if place else run, **changes)

    return make_run


def planned(*runs: Run, accelerators: int = 2, spare: str = "", places: int = 99) -> Plan:
    return plan(runs, "here", Room(places, [Node(99, accelerators)]), [*spare])


def test_the_turn_goes_by_priority_then_age(make: Any) -> None:
    waiting = [make("d"), make("a"), make("c", "high"), make("b", "low"), make("e", "high")]
    assert planned(*waiting, accelerators=4).starts == ("c", "e", "a", "d")


def test_nobody_overtakes_who_waits_for_room(make: Any) -> None:
    found = planned(make("a", place="here"), make("b", ranks=2), make("c"), make("d", "low"))
    assert found.starts == ()
    assert found.waits == {
        "b": "2 accelerators: 1 of 2 are free (a is under way)",
        "c": "b, which is before it and waits for room",
        "d": "b, which is before it and waits for room",
    }


def test_a_run_that_no_room_will_do_for_holds_up_nobody(make: Any) -> None:
    found = planned(make("a", "high", ranks=4), make("b"))
    assert found.starts == ("b",)
    assert found.waits["a"] == ("a larger cluster, or a node to come back: it needs 4 accelerators: 2 of 2 are free")


def test_a_run_takes_room_from_lower_ones_only(make: Any) -> None:
    equal, lower = make("a", place="here"), make("b", "low", place="here")
    found = planned(equal, lower, make("c"), spare="ab")
    assert found.preempted == {"b": "c"}
    assert found.waits["c"].endswith("(a, b are under way); b will make room after this step")
    assert planned(equal, make("b", place="here"), make("c"), spare="ab").preempted == {}
    assert planned(equal, lower, make("c", "low"), spare="ab").preempted == {}


@pytest.mark.parametrize(
    ("spare", "stopped"),
    [
        ("abcd", {"d": "x"}),  # one is enough, and it is of the largest share
        ("abc", {"b": "x", "c": "x"}),  # the lowest before the newest
        ("ab", {"a": "x", "b": "x"}),
        ("a", {}),  # it would not be enough
    ],
)
def test_it_stops_the_fewest_lowest_newest(make: Any, spare: str, stopped: dict[str, str]) -> None:
    here = [
        make(id, priority, ranks, "here")
        for id, priority, ranks in (("a", "normal", 1), ("b", "low", 1), ("c", "low", 1), ("d", "normal", 2))
    ]
    assert planned(*here, make("x", "high", ranks=2), accelerators=5, spare=spare).preempted == stopped


def test_of_equal_ones_the_newest_makes_room(make: Any) -> None:
    here = [make(id, "low", place="here") for id in "abc"]
    assert planned(*here, make("x"), accelerators=3, spare="abc").preempted == {"c": "x"}


def test_it_stays_with_those_that_make_room_already(make: Any) -> None:
    leaving = make("a", "low", place="here", preempted_by="x")
    assert planned(leaving, make("b", "low", place="here"), make("x"), spare="ab").preempted == {"a": "x"}
    # They make room for whoever is first by then; and when nobody waits any more they go on.
    assert planned(leaving, make("b", place="here"), make("x"), make("y", "high")).preempted == {"a": "y"}
    assert planned(leaving, make("b", place="here")).preempted == {}


def test_of_many_runs_none_is_stopped_in_vain(make: Any) -> None:
    here = [make(id, "low", place="here") for id in "abcdefghijklmnop"]
    found = planned(*here, make("x", ranks=3), accelerators=16, spare="abcdefghijklmnop")
    assert found.preempted == {"n": "x", "o": "x", "p": "x"}


def test_each_place_has_its_own_room_and_makes_room_once(make: Any) -> None:
    here, there = make("a", "low", place="here"), make("b", "low", place="there")
    assert planned(there, make("c"), accelerators=1).starts == ("c",)
    leaving = replace(there, preempted_by="x")
    assert planned(here, leaving, make("x"), accelerators=1, spare="a").preempted == {}


def test_a_run_that_has_trained_takes_no_room(make: Any) -> None:
    assert planned(make("a", place="here", trained_time=NOW), make("b"), places=1).starts == ("b",)


def test_the_time_left_is_told_by_a_step_of_this_attempt(make: Any) -> None:
    run = make("a", place="here", step=40)
    step = Step(40, {"time_step_s": 3.0}, "sha256:p", NOW, 1)
    assert time_left(run, step) == timedelta(minutes=3)
    assert time_left(run, None) is None
    assert time_left(replace(run, attempt=2), step) is None
    assert time_left(run, replace(step, metrics={})) is None
    few = replace(run, tokens=4000, spec=replace(run.spec, max_tokens=5000))
    assert time_left(few, step) == timedelta(seconds=30)


@pytest.fixture
def on_nodes(make: Any) -> Any:
    """Wants three nodes of one accelerator, goes on with two, has been under way before."""

    def make_run(id: str, **changes: Any) -> Run:
        run = make(id)
        resources = Resources(nodes=3, accelerators_per_node=1, min_nodes=2)
        hyper = replace(run.spec.hyperparameters, batch_size=6, group_size=1, mini_batch_size=None)
        spec = replace(run.spec, resources=resources, hyperparameters=hyper)
        return replace(run, spec=spec, **{"attempt": 1, "step": 2, **changes})

    return make_run


def on(nodes: int, *runs: Run) -> Plan:
    return plan(runs, "here", Room(9, [Node(99, 1)] * nodes))


def test_a_run_that_lost_a_node_goes_on_with_fewer(on_nodes: Any) -> None:
    again, new = on_nodes("a"), on_nodes("b", step=0)
    assert (on(3, again).starts, on(3, again).nodes) == (("a",), {})
    assert (on(2, again).starts, on(2, again).nodes) == (("a",), {"a": 2})
    assert on(1, again).waits["a"].startswith("a larger cluster")
    assert on(2, new).waits["b"].startswith("a larger cluster"), "one that has done no step waits for all of them"


def test_fewer_nodes_are_no_reason_to_overtake(on_nodes: Any, make: Any) -> None:
    busy = make("a", place="here")
    assert on(3, busy, on_nodes("b")).waits["b"].startswith("3 nodes with 1 accelerator each: 2 of 3 are free")


def test_it_has_as_many_nodes_as_share_its_batches(on_nodes: Any) -> None:
    four = on_nodes("a")
    wide = replace(four.spec.resources, nodes=5, min_nodes=3)
    four = replace(four, spec=replace(four.spec, resources=wide))
    assert on(4, four).nodes == {"a": 3}, "four ranks do not share a batch of six"


def test_a_smaller_attempt_takes_what_it_has(on_nodes: Any, make: Any) -> None:
    smaller = on_nodes("a").start(NOW, "here", 2)
    assert smaller.nodes == 2
    assert on(3, smaller, make("b")).starts == ("b",)
    assert smaller.again(2, NOW).nodes == 0, "the next one asks for all of them again"
