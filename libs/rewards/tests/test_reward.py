import pytest

from ratchet_rewards import Component, Point, Reward


def test_a_weight_goes_on_a_line_from_point_to_point() -> None:
    dense_first = Component("tests_fraction", schedule=(Point(10, 1.0), Point(20, 0.5), Point(30, 0.0)))
    found = [dense_first.weight_at(step) for step in (1, 10, 15, 20, 28, 30, 99)]
    assert found == pytest.approx([1.0, 1.0, 0.75, 0.5, 0.1, 0.0, 0.0])
    assert (Component("style").weight_at(5), Component("style", -0.5).weight_at(5)) == (1.0, -0.5)


def test_a_program_is_pinned_by_its_digest() -> None:
    pinned = Component("loud", program="print([1])").pinned()
    assert pinned.digest == "sha256:7d131fff11fe31c3bc3c0284d80f18c4e0e40ac5e8e0d73e8a4fc5631ed27931"
    assert pinned.pinned() == pinned
    assert Component("style", digest="sha256:false").pinned().digest == ""


def test_a_reward_of_which_nothing_is_said_is_false() -> None:
    assert not Reward()
    assert Reward(combination="gdpo")
