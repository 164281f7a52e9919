"""The header of a file of weights: what tensors it has, and where. https://github.com/huggingface/safetensors#format"""

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

from ratchet_kit.errors import DataLoss

WIDTHS: Mapping[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
}
"""Bytes of an element, by the dtypes of weights."""
_EXPONENTS: Mapping[str, tuple[Sequence[int], int]] = {
    "F64": ((0x7F, 0xFF), 0xF0),
    "F32": ((0x7F, 0xFF), 0x80),
    "BF16": ((0x7F, 0xFF), 0x80),
    "F16": ((*range(0x7C, 0x80), *range(0xFC, 0x100)), 0),
}
"""Of NaN and infinity, whose exponent is all ones (IEEE 754): what the last byte is, and bits of the one before."""
PREFIX = 8
"""Bytes before the header: its size."""
_SLICE = 8 << 20
_MAX_HEADER_BYTES = 100_000_000
"""As many as safetensors itself reads."""


class Entry(NamedTuple):
    name: str
    dtype: str
    """"F32", "BF16", ..."""
    shape: Sequence[int]
    begin: int
    end: int
    """Bytes, from the first after the header."""


def is_finite(dtype: str, data: bytes | bytearray | memoryview) -> bool:
    """Whether no number of a tensor (little endian) is NaN or infinity; true of dtypes that have neither."""
    if dtype not in _EXPONENTS:
        return True
    tops, bits = _EXPONENTS[dtype]
    width = WIDTHS[dtype]
    # In slices: a few MiB are copied at a time, since a view with steps is slow to copy.
    for start in range(0, len(data), _SLICE):
        some = bytes(data[start : start + _SLICE])
        last = some[width - 1 :: width]
        if any(some[place * width + width - 2] & bits == bits for top in tops for place in _places(last, top)):
            return False
    return True


def _places(data: bytes, byte: int) -> Iterator[int]:
    place = data.find(byte)
    while place >= 0:
        yield place
        place = data.find(byte, place + 1)


def header_size(prefix: bytes, file: str) -> int:
    """Bytes of the header that comes after the prefix. Raises DataLoss where there can be none."""
    try:
        (size,) = struct.unpack_from("<Q", prefix)
    except struct.error as error:
        raise DataLoss(f"{file} is not a safetensors file") from error
    if size > _MAX_HEADER_BYTES:
        raise DataLoss(f"{file} is not a safetensors file: its header would have {size} bytes")
    return int(size)


def entries(header: bytes, data_bytes: int, file: str) -> Sequence[Entry]:
    """`data_bytes`: that come after the header. Raises DataLoss where it is none, or says that there are more."""
    try:
        found = _entries(json.loads(header))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataLoss(f"{file} is not a safetensors file") from error
    if found and max(entry.end for entry in found) > data_bytes:
        raise DataLoss(f"{file} is cut short")
    return found


def _entries(header: dict[str, Any]) -> Sequence[Entry]:
    """Raises KeyError, AttributeError, TypeError or ValueError for one that is none."""
    found = []
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = map(index, entry["data_offsets"])
            dtype, shape = str(entry["dtype"]), [index(size) for size in entry["shape"]]
            width = WIDTHS.get(dtype)
            as_said = not width or end - begin == width * math.prod(shape)
            if not (0 <= begin <= end and all(size >= 0 for size in shape) and as_said):
                raise ValueError(f"{name} does not lie in the file")
            found.append(Entry(name, dtype, shape, begin, end))
    return found
