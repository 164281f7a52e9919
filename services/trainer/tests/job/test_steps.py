"""The order of steps: what may come next is all that a state has."""

from typing import Any

import pytest

from trainer_service.job.samples.steps import Ahead, Generating, Idle, Learning, Moves


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def start(done: list[str]) -> Idle:
    moves = {
        name: (lambda step, name=name: done.append(f"{name} {step}")) for name in ("draw", "learn", "save", "renew")
    }
    return Idle(Moves(**moves), 0)


def test_each_step_learns_from_samples_of_its_own_weights(start: Idle, done: list[str]) -> None:
    learning = start.generate(1).learn(1)
    assert isinstance(learning, Learning)
    learning.save()
    state = learning.renew().generate(0)
    assert done == ["draw 1", "learn 1", "save 1", "renew 1", "draw 2"]
    assert state == Generating(start.moves, 2, 2)


def test_the_next_ones_samples_are_made_beside_it_once_it_is_known_what_it_told(start: Idle, done: list[str]) -> None:
    ahead = start.generate(1).learn(2)
    assert isinstance(ahead, Ahead)
    state = ahead.renew()
    assert isinstance(state, Generating)
    state.learn(2)
    assert done == ["draw 1", "learn 1", "draw 2", "renew 1", "learn 2"]


def test_those_of_several_steps_are_made_at_a_time_and_none_is_drawn_twice(start: Idle, done: list[str]) -> None:
    state = start.generate(2).learn(3)
    assert isinstance(state, Ahead)
    state = state.renew().learn(3)
    assert isinstance(state, Ahead)
    state = state.renew().learn(3)
    assert isinstance(state, Learning)
    drawn = [event for event in done if not event.startswith("renew")]
    assert drawn == ["draw 1", "draw 2", "learn 1", "draw 3", "learn 2", "learn 3"]


def test_a_state_has_no_more_than_may_come_next() -> None:
    def ways(state: Any) -> set[str]:
        return {name for name in vars(state) if not name.startswith("_")} - {"moves", "step", "drawn"}

    assert {state: ways(state) for state in (Idle, Generating, Learning, Ahead)} == {
        Idle: {"generate"},
        Generating: {"learn"},
        Learning: {"save", "renew"},
        Ahead: {"renew"},  # no checkpoint over what was drawn ahead of it
    }
