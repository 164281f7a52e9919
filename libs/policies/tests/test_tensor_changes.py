"""What changed in a tensor: its way there and back, and what others may send for it."""

import random
import struct
import zlib

import pytest

from ratchet_kit.errors import DataLoss
from ratchet_policies import tensor_changes


def values(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(2 * count)


def changed(data: bytes, positions: list[int]) -> bytes:
    new = bytearray(data)
    for position in positions:
        new[2 * position] ^= 1
    return bytes(new)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000, 4099])
@pytest.mark.parametrize("share", [0, 0.01, 0.3])
def test_what_arrives_is_what_was_sent(count: int, share: float) -> None:
    before = values(count)
    positions = [0, count - 1, *random.Random(1).sample(range(count), int(count * share))]
    after = changed(before, sorted(set(positions)))
    encoded = tensor_changes.encode(before, memoryview(after), 2)
    if encoded is None:
        assert count < 1000, "too few to gain anything"
    else:
        assert len(encoded) < len(after)
        assert tensor_changes.decode(memoryview(before), encoded, 2) == after


def test_one_value_in_a_hundred_is_a_hundredth_of_the_bytes() -> None:
    before = values(1_000_000)
    after = changed(before, random.Random(1).sample(range(1_000_000), 10_000))
    encoded = tensor_changes.encode(before, after, 2)
    assert encoded is not None
    assert len(encoded) < 0.013 * len(after)


def test_what_changed_all_over_is_no_smaller() -> None:
    before, after = values(1000), values(1000, seed=1)
    assert tensor_changes.encode(before, after, 2) is None
    assert tensor_changes.encode(before, values(999), 2) is None, "another size"


def test_signs_of_zero_and_numbers_that_are_none_are_kept() -> None:
    before = struct.pack("<64f", *[0.0] * 64)
    after = struct.pack("<64f", -0.0, float("nan"), *[0.0] * 62)
    encoded = tensor_changes.encode(before, after, 4)
    assert encoded is not None
    assert tensor_changes.decode(before, encoded, 4) == after


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no zlib at all",
        zlib.compress(bytes(124)),  # fewer bits than elements
        zlib.compress(bytes(126)),
        zlib.compress(bytes(1 << 24)),  # a bomb is not unpacked
        zlib.compress(bytes(125))[:-1],
        zlib.compress(bytes(125)) + b"x",
        zlib.compress(bytes(125) + b"xx"),  # a difference of none
        zlib.compress(b"\x80" + bytes(124)),
        zlib.compress(b"\x80" + bytes(124) + b"x"),
    ],
)
def test_what_are_no_changes_of_this_tensor_is_data_loss(bad: bytes) -> None:
    with pytest.raises(DataLoss):
        tensor_changes.decode(values(1000), bad, 2)


def test_no_change_is_one_too() -> None:
    before = values(1000)
    encoded = tensor_changes.encode(before, before, 2)
    assert encoded is not None
    assert tensor_changes.decode(before, encoded, 2) == before
    assert tensor_changes.decode(b"", zlib.compress(b""), 2) == b""
