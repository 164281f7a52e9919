import pytest

from ratchet_kit.errors import ResourceExhausted
from ratchet_policies import Purpose
from rollout_service.domain.room import Room

SERVING, TRAINING, EVALUATION = Purpose.SERVING, Purpose.TRAINING, Purpose.EVALUATION


def test_each_purpose_has_a_place_and_the_others_are_for_whoever_comes_first() -> None:
    room = Room.of(6)
    assert [room.free([], purpose) for purpose in Purpose] == [4, 4, 4]
    assert [room.free([SERVING] * 4, purpose) for purpose in Purpose] == [0, 1, 1]
    assert [room.free([SERVING, TRAINING, EVALUATION], purpose) for purpose in Purpose] == [3, 3, 3]


def test_a_small_node_is_for_whoever_comes_first() -> None:
    room = Room.of(2)
    assert [room.free([TRAINING], purpose) for purpose in Purpose] == [1, 1, 1]


def test_places_are_kept_as_set() -> None:
    room = Room.of(4, {SERVING: 4})
    assert [room.free([], purpose) for purpose in Purpose] == [4, 0, 0]
    with pytest.raises(ResourceExhausted, match="kept for purposes other than training"):
        room.require([], TRAINING)


def test_more_than_fit_after_a_restart_with_less_room_leave_none() -> None:
    assert Room.of(1).free([SERVING, SERVING], SERVING) == 0
