"""Changes in a tensor, as they travel in UpdateWeights (rollout.proto, TensorHeader.changes).

Of the values of a bfloat16 policy a few in a hundred change in a step of training: the others' steps are smaller than
what bfloat16 can tell apart (arXiv:2602.03839). How many did comes first; then how far each lies behind the one before
it; then by how much each did, its bytes taken as an unsigned number: nearly always by one. All is compressed. What
arrives is equal, bit for bit, to what was sent.

Needs numpy, which only the two sides of a transfer have: the package itself does not import this.
"""

import zlib
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ratchet_kit.errors import DataLoss

Buffer: TypeAlias = bytes | bytearray | memoryview
Elements: TypeAlias = NDArray[np.unsignedinteger[Any]]
_FAR = 255
"""A distance of 255 unchanged elements, which goes on with the next byte."""
_AT_ONCE = 1 << 16
"""Elements whose comparison stays in a processor's cache."""
_COUNT = np.dtype("<u8")


class Changed(NamedTuple):
    """`places`: ascending, counted in elements of the flat tensor."""

    places: NDArray[np.int64]
    differences: Elements


def encode(before: Buffer, after: Buffer, width: int) -> bytes | None:
    """Changes that make `after` of `before`; None where `after` itself is not larger. `width`: bytes of an element."""
    if len(before) != len(after):
        return None
    changed = _changed(elements(before, width), elements(after, width))
    if 2 * len(changed.places) > len(after) // width:
        return None
    # Distances and differences repeat nothing: Huffman's code alone is the smallest here, and the fastest.
    stream = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)
    changes = stream.compress(np.array([len(changed.places)], _COUNT).tobytes())
    changes += stream.compress(_distances(changed.places).tobytes())
    changes += stream.compress(changed.differences.tobytes()) + stream.flush()
    return changes if len(changes) < len(after) else None


def decode(changes: Buffer, count: int, width: int) -> Changed:
    """The changes of a tensor of `count` elements.

    Raises:
        DataLoss: they are not changes of a tensor of that size.
    """
    stream = zlib.decompressobj()
    most = _COUNT.itemsize + count + count // _FAR + count * width
    try:
        came = memoryview(stream.decompress(changes, most + 1))  # no more than it may be, whatever it says
    except zlib.error as error:
        raise DataLoss(f"the changes cannot be read: {error}") from error
    if not stream.eof or stream.unused_data or len(came) < _COUNT.itemsize:
        raise DataLoss("the changes are not those of a tensor of this size")
    some = int(np.frombuffer(came, _COUNT, 1)[0])
    distances = len(came) - _COUNT.itemsize - some * width
    if distances < some:
        raise DataLoss("there are not as many differences as changes")
    places = _places(np.frombuffer(came, np.uint8, distances, _COUNT.itemsize))
    if len(places) != some or (some and places[-1] >= count):
        raise DataLoss("the changes do not lie in the tensor")
    return Changed(places, elements(came[_COUNT.itemsize + distances :], width))


def elements(data: Buffer, width: int) -> Elements:
    """The elements' bytes as unsigned little-endian numbers."""
    return np.frombuffer(data, np.dtype(f"<u{width}"))


def _changed(old: Elements, new: Elements) -> Changed:
    places, differences = [np.empty(0, np.int64)], [new[:0]]
    for start in range(0, len(new), _AT_ONCE):
        before, after = old[start : start + _AT_ONCE], new[start : start + _AT_ONCE]
        found = np.flatnonzero(before != after)
        differences.append(after[found] - before[found])
        places.append(found + start)
    return Changed(np.concatenate(places), np.concatenate(differences))


def _distances(places: NDArray[np.int64]) -> NDArray[np.uint8]:
    between = np.diff(places, prepend=-1) - 1
    far, near = np.divmod(between, _FAR)
    ends = np.cumsum(far + 1) - 1
    found = np.full(int(ends[-1]) + 1 if len(ends) else 0, _FAR, np.uint8)
    found[ends] = near
    return found


def _places(distances: NDArray[np.uint8]) -> NDArray[np.int64]:
    is_change = distances != _FAR
    places: NDArray[np.int64] = np.cumsum(distances, dtype=np.int64) + np.cumsum(is_change, dtype=np.int64) - 1
    changed: NDArray[np.int64] = places[is_change]
    return changed
