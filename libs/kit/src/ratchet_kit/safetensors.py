"""A file of weights: what tensors it has, where, and whether they are numbers.

https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
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
PREFIX = 8
"""Bytes before the header: its size."""
METADATA = "__metadata__"
"""In a header, the name of what is no tensor."""
_EXPONENT_ENDS: Mapping[str, int] = {"F64": 0xF0, "F32": 0x80, "BF16": 0x80}
"""The least second byte, from the top, of an element whose exponent has no 0. An F16 has all of its in the first."""
_F16 = bytes(0x7F if top & 0x7C == 0x7C else 0 for top in range(256))
_AT_ONCE = 1 << 20
"""Bytes."""
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
        if name != METADATA:
            begin, end = map(index, entry["data_offsets"])
            dtype, shape = str(entry["dtype"]), [index(size) for size in entry["shape"]]
            width = WIDTHS.get(dtype)
            as_said = not width or end - begin == width * math.prod(shape)
            if not (0 <= begin <= end and all(size >= 0 for size in shape) and as_said):
                raise ValueError(f"{name} does not lie in the file")
            found.append(Entry(name, dtype, shape, begin, end))
    return found


def is_finite(dtype: str, data: bytes | bytearray | memoryview) -> bool:
    """Whether no element is infinite or NaN, which have an exponent without a 0 (IEEE 754). `data`: little endian. True
    for dtypes that are not in WIDTHS, and for whole numbers. Of 1 GB it takes 2 s."""
    width, least = WIDTHS.get(dtype, 0), _EXPONENT_ENDS.get(dtype)
    if least is None and dtype != "F16":
        return True
    for begin in range(0, len(data), _AT_ONCE):
        part = bytes(data[begin : begin + _AT_ONCE])
        top = part[width - 1 :: width] if least else part[1::2].translate(_F16)
        if b"\x7f" not in top and b"\xff" not in top:  # so it is but for the largest numbers
            continue
        below = part[width - 2 :: width]
        if not least or any(one >= least for one, full in zip(below, top, strict=True) if full in (0x7F, 0xFF)):
            return False
    return True
