"""What changed in a tensor: its way there and back, and what others may send for it."""

import random
import struct
import zlib

import pytest

from ratchet_kit.errors import DataLoss
from ratchet_policies import tensor_changes


def values(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(2 * count)


def decoded(before: bytes, changes: bytes, width: int) -> bytes:
    found = tensor_changes.decode(changes, len(before) // width, width)
    new = tensor_changes.elements(before, width).copy()
    new[found.places] += found.differences
    return new.tobytes()


def packed(count: int, rest: bytes) -> bytes:
    return zlib.compress(count.to_bytes(8, "little") + rest)


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
        assert decoded(before, encoded, 2) == after


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
    assert decoded(before, encoded, 4) == after


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no zlib at all",
        zlib.compress(bytes(7)),
        packed(0, b"x"),
        packed(1, b"\x00x"),  # a difference of one byte
        packed(2, b"\x00\x00xx"),
        packed(1, b"\xffxx"),  # a distance that goes on
        packed(1, b"\xff\xff\xff\xffxx"),
        packed(1, b"\xff\xff\xff\xf0xx"),  # behind the end
        packed(1001, bytes(1001) + bytes(2002)),
        packed(1 << 60, b"\x00xx"),
        packed(0, bytes(1 << 24)),  # a bomb is not unpacked
        packed(1, b"\x00xx")[:-1],
        packed(1, b"\x00xx") + b"x",
    ],
)
def test_what_are_no_changes_of_this_tensor_is_data_loss(bad: bytes) -> None:
    with pytest.raises(DataLoss):
        tensor_changes.decode(bad, 1000, 2)


def test_no_change_is_one_too() -> None:
    before = values(1000)
    encoded = tensor_changes.encode(before, before, 2)
    assert encoded is not None
    assert decoded(before, encoded, 2) == before
    assert decoded(b"", packed(0, b""), 2) == b""


@pytest.mark.parametrize("gap", [1, 254, 255, 256, 510, 511, 70_000])
def test_changes_may_lie_far_from_one_another(gap: int) -> None:
    before = values(3 * gap + 2)
    after = changed(before, [gap - 1, 2 * gap, 3 * gap + 1])
    encoded = tensor_changes.encode(before, after, 2)
    assert encoded is None if gap == 1 else decoded(before, encoded or b"", 2) == after
