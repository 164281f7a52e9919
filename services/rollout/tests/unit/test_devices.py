"""Which GPUs a policy gets, and how much of them."""

import pytest

from ratchet_kit.errors import InvalidArgument, ResourceExhausted
from rollout_service.domain.devices import Devices


def ids(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.parametrize(
    ("gpus", "capacity", "spread", "shares"),
    [(1, 4, 1, 4), (1, 1, 1, 1), (2, 4, 1, 2), (8, 4, 1, 1), (8, 4, 8, 4), (8, 4, 4, 2), (8, 3, 4, 2), (0, 4, 1, 1)],
)
def test_all_policies_that_the_service_may_hold_have_room(gpus: int, capacity: int, spread: int, shares: int) -> None:
    devices = Devices.of(ids(gpus), capacity, memory=0.9, spread=spread, sizes={"GPU-a": 1000})
    assert devices.gpu_memory == {"GPU-a": 900}
    assert devices.shares == shares
    placed: list[tuple[str, ...]] = []
    for _ in range(capacity):
        placed.append(devices.place(placed, None))
    for id in devices.ids:
        assert sum(id in policy for policy in placed) * devices.memory_share <= 0.9 + 1e-9


def test_the_emptiest_gpus_are_taken() -> None:
    devices = Devices(("0", "1", "2"), shares=2)
    assert devices.place([], 1) == ("0",)
    assert devices.place([("0",)], 1) == ("1",)
    assert devices.place([("0",), ("1", "2")], 1) == ("0",)
    assert devices.place([("0",), ("1",)], 2) == ("0", "2")


def test_a_policy_without_room_is_refused() -> None:
    devices = Devices(("0", "1"), shares=1)
    with pytest.raises(ResourceExhausted, match="1 of 2 GPUs have room for one more engine, and this policy needs 2"):
        devices.place([("0",)], 2)


def test_more_gpus_than_there_are_is_a_fault_of_the_request() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Devices(("0", "1")).place([], 3)
    assert [violation.field for violation in refused.value.violations] == ["options.tensor_parallel_size"]


def test_on_the_cpu_there_is_nothing_to_place() -> None:
    assert Devices().place([(), ()], 8) == ()
