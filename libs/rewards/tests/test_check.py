"""Every fault of a reward by its field."""

import pytest

from ratchet_kit.faults import Faults
from ratchet_kit.names import Location
from ratchet_rewards import PRESETS, Component, Point, Reward, check, completed


def named(reward: Reward) -> dict[str, str]:
    faults = Faults()
    check(completed(reward), faults)
    return {fault.field: fault.description for fault in faults.violations}


@pytest.mark.parametrize("name", ["", "tests_fraction", *PRESETS])
def test_what_has_a_name_is_right(name: str) -> None:
    assert named(Reward(name)) == {}


def test_a_name_that_there_is_not_is_refused_with_those_there_are() -> None:
    assert named(Reward("loudest"))["name"].startswith("must be one of tests_passed, tests_fraction, style")
    assert named(Reward(components=(Component("stile"),)))["components[0].name"].startswith(
        "is not a component: 'stile'; did you mean style? there are tests_passed,"
    )
    assert "components[0].name" in named(Reward(components=(Component(""),)))


@pytest.mark.parametrize(
    ("component", "field"),
    [
        (Component("style", float("nan")), "weight"),
        (Component("style", 0.2, schedule=(Point(1, 0.2),)), "weight"),
        (Component("style", schedule=(Point(0, 0.2),)), "schedule[0].step"),
        (Component("style", schedule=(Point(5, 0.2), Point(5, 0.3))), "schedule[1].step"),
        (Component("style", schedule=(Point(1, float("inf")),)), "schedule[0].weight"),
        (Component("safety", veto_below=1.5), "veto_below"),
        (Component("safety", veto_below=0.0), "veto_below"),
        (Component("length", parameters={"tokens": 0.0}), "parameters.tokens"),
        (Component("length", parameters={"words": 9.0}), "parameters.words"),
        (Component("style", program="print([])"), "name"),
        (Component("not a name", program="print([])"), "name"),
        (Component("loud", program="print([])\0"), "program"),
        (Component("loud", program="def (:\n"), "program"),
        (Component("loud", program="print([])", parameters={"limit": 0.0}), "parameters.limit"),
        (Component("preference"), "model"),
        (Component("style", model=Location("/models/judge")), "model"),
        (Component("preference", parameters={"scale": 0.0}, model=Location("/models/judge")), "parameters.scale"),
    ],
)
def test_a_component_at_fault_is_named(component: Component, field: str) -> None:
    assert set(named(Reward(components=(Component("tests_passed"), component)))) == {f"components[1].{field}"}


def test_together_they_say_one_thing() -> None:
    twice = Reward(components=(Component("style"), Component("style")))
    assert set(named(twice)) == {"components[1].name"}
    assert set(named(Reward("style", components=(Component("length"),)))) == {"name"}
    assert set(named(Reward(combination="mean"))) == {"combination"}
    assert set(named(Reward(components=(Component("style"),) * 17))) >= {"components"}
    long = [Component(name, program="#" * 20_000) for name in ("one", "other")]
    assert set(named(Reward(components=tuple(long)))) == {"components"}


def test_something_is_rewarded_at_each_step() -> None:
    ends = Component("tests_fraction", schedule=(Point(1, 1.0), Point(9, 0.0)))
    assert named(Reward(components=(ends,)))["components"].startswith("must not all have the weight 0, as at step 9")
    assert named(Reward(components=(ends, Component("tests_passed", schedule=(Point(1, 0.0), Point(9, 1.0)))))) == {}


def test_a_lexicographic_reward_goes_by_the_order() -> None:
    ordered = Reward(components=(Component("tests_passed"), Component("style", 0.5)), combination="lexicographic")
    assert set(named(ordered)) == {"components[1].weight"}
