"""What changed in a policy's tensors, as files beside its weights, for an engine that applies it in place.

Safetensors files in the folder `changes`: of each tensor that changed its new values, under its name, and where they
belong, under its name and `.places`: ascending, counted in elements of the flat tensor. A tensor that came whole is
there whole, without places.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratchet_kit import policy_id, safetensors
from ratchet_kit.errors import DataLoss
from ratchet_policies import tensor_changes

FOLDER = "changes"
_PLACES = ".places"


class Change(NamedTuple):
    """Of one tensor."""

    name: str
    dtype: str
    """As safetensors names it."""
    values: bytearray
    places: NDArray[np.int32] | NDArray[np.int64] | None
    """None: all of it."""


def of_tensor(
    name: str, dtype: str, size: int, places: NDArray[np.int64], values: tensor_changes.Elements
) -> list[policy_id.Tensor]:
    """What the files have of a tensor of `size` elements that has other `values` at `places`; none where it is the
    same."""
    if not len(places):
        return []
    kind = "I32" if size <= np.iinfo(np.int32).max else "I64"
    return [
        policy_id.Tensor(name, dtype, [len(places)], values.tobytes()),
        policy_id.Tensor(name + _PLACES, kind, [len(places)], places.astype(f"<i{safetensors.WIDTHS[kind]}").tobytes()),
    ]


def read(folder: Path, digest: str) -> Iterator[Change]:
    """What is in the files of `folder`. `digest`: the id over them, as if they were a policy's.

    Raises DataLoss at the end, where they have another.
    """
    hashes = list[tuple[str, str, list[int], str]]()
    values: policy_id.Tensor | None = None
    for file in sorted((folder / FOLDER).glob("*.safetensors")):
        for tensor in policy_id.read_safetensors(file):
            hashes.append((tensor.name, tensor.dtype, list(tensor.shape), hashlib.sha256(tensor.data).hexdigest()))
            if values is not None and tensor.name == values.name + _PLACES:
                places = np.frombuffer(bytearray(tensor.data), f"<i{safetensors.WIDTHS[tensor.dtype]}")
                yield Change(values.name, values.dtype, bytearray(values.data), places)
                values = None
            else:
                if values is not None:
                    yield Change(values.name, values.dtype, bytearray(values.data), None)
                values = tensor._replace(data=bytes(tensor.data))
    if values is not None:
        yield Change(values.name, values.dtype, bytearray(values.data), None)
    if policy_id.of_hashes(hashes) != digest:
        raise DataLoss(f"the changes in {folder} are not those that came")
