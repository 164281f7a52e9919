import pytest

from ratchet_rewards import COMPONENTS, PRESETS, Combination, Component, Reward, completed
from ratchet_rewards.catalogue import OWN, kind


def test_a_name_is_a_component_or_a_preset_and_none_is_tests_passed() -> None:
    assert completed(Reward()).components == (Component("tests_passed"),)
    assert completed(Reward("style")).components == (Component("style"),)
    balanced = completed(Reward("balanced"))
    assert [(one.name, one.weight) for one in balanced.components] == [
        ("tests_passed", 0.7),
        ("style", 0.2),
        ("length", 0.1),
    ]
    assert balanced.combination == Combination.WEIGHTED_SUM
    assert completed(Reward("balanced", combination="gdpo")).combination == "gdpo"


@pytest.mark.parametrize("name", [*COMPONENTS, *PRESETS])
def test_completing_twice_changes_nothing(name: str) -> None:
    once = completed(Reward(name))
    assert once.name == ""
    assert completed(once) == once


def test_what_there_is_not_stays_as_it_is() -> None:
    assert completed(Reward("loudest")) == Reward("loudest")


def test_a_program_makes_a_component_ones_own() -> None:
    assert kind(Component("loud", program="print([])")) is OWN
    assert kind(Component("style")).low == 0.0
    with pytest.raises(KeyError):
        kind(Component("loud"))
