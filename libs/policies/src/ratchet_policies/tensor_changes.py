"""Changes in a tensor, as they travel in UpdateWeights (rollout.proto, TensorHeader.changes).

Of the values of a bfloat16 policy a few in a hundred change in a step of training: the others' steps are smaller than
what bfloat16 can tell apart (arXiv:2602.03839). Which ones did is a bit an element; then comes by how much each did,
its bytes taken as an unsigned number: nearly always by one. Both are compressed. What arrives is equal, bit for bit, to
what was sent.

Needs numpy, which only the two sides of a transfer have: the package itself does not import this.
"""

import zlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ratchet_kit.errors import DataLoss

Buffer: TypeAlias = bytes | bytearray | memoryview


def encode(before: Buffer, after: Buffer, width: int) -> bytes | None:
    """Changes that make `after` of `before`; None where `after` itself is not larger. `width`: bytes of an element."""
    if len(before) != len(after):
        return None
    old, new = _elements(before, width), _elements(after, width)
    changed = old != new
    if 2 * np.count_nonzero(changed) > len(new):
        return None
    # Single bits that are far between repeat nothing: Huffman's code alone is the smallest here, and the fastest.
    stream = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)
    changes = stream.compress(np.packbits(changed).tobytes())
    changes += stream.compress(np.compress(changed, new - old).tobytes()) + stream.flush()
    return changes if len(changes) < len(after) else None


def decode(before: Buffer, changes: Buffer, width: int) -> bytes:
    """The tensor that `changes` make of `before`.

    Raises:
        DataLoss: they are not changes of a tensor of that size.
    """
    old = _elements(before, width)
    size = (len(old) + 7) // 8
    stream = zlib.decompressobj()
    try:
        came = stream.decompress(changes, size + len(before) + 1)  # no more than it may be, whatever it says
    except zlib.error as error:
        raise DataLoss(f"the changes cannot be read: {error}") from error
    if not stream.eof or stream.unused_data or len(came) < size:
        raise DataLoss("the changes are not those of a tensor of this size")
    changed = np.unpackbits(np.frombuffer(came, np.uint8, size), count=len(old)).view(bool)
    if len(came) - size != int(np.count_nonzero(changed)) * width:
        raise DataLoss("there are not as many differences as changes")
    new = np.zeros_like(old)
    np.place(new, changed, _elements(memoryview(came)[size:], width))
    new += old
    return new.tobytes()


def _elements(data: Buffer, width: int) -> NDArray[np.unsignedinteger[Any]]:
    return np.frombuffer(data, np.dtype(f"<u{width}"))
