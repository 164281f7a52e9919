"""What changed in a tensor, as it lies on disk for the engine."""

from pathlib import Path

import numpy as np
import pytest

from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss
from rollout_service.adapters import changes
from rollout_service.adapters.receiving import Files

BEFORE = np.arange(1000, dtype="<u2")


def tensor(values: np.ndarray, name: str = "w") -> policy_id.Tensor:
    return policy_id.Tensor(name, "BF16", [len(values)], values.tobytes())


def of(after: np.ndarray, name: str = "w") -> list[policy_id.Tensor]:
    places = np.flatnonzero(after != BEFORE)
    return changes.of_tensor(name, "BF16", len(BEFORE), places, after[places])


def moved(*places: int) -> np.ndarray:
    after = BEFORE.copy()
    after[list(places)] += 7
    return after


def written(folder: Path, *tensors: policy_id.Tensor) -> str:
    """Returns the digest."""
    files = Files(folder / "changes", shard_bytes=1)
    for one in tensors:
        files.place(one.name, one.dtype, one.shape, len(one.data)).write(one.data, 0)
    files.end()
    files.close()
    return policy_id.compute(tensors)


def test_only_what_differs_is_kept_and_comes_back(tmp_path: Path) -> None:
    parts = of(moved(0, 17, 999))
    assert sum(len(part.data) for part in parts) == 3 * (2 + 4)
    others = of(moved(5), "w2")
    one, other = changes.read(tmp_path, written(tmp_path, *parts, *others))
    assert (one.name, one.dtype, list(one.places), other.name, list(other.places)) == (
        "w",
        "BF16",
        [0, 17, 999],
        "w2",
        [5],
    )
    assert list(np.frombuffer(one.values, "<u2")) == [7, 24, 1006]


def test_a_tensor_that_came_whole_is_whole(tmp_path: Path) -> None:
    after = moved(*range(400))
    (one,) = changes.read(tmp_path, written(tmp_path, tensor(after)))
    assert one.places is None
    assert bytes(one.values) == after.tobytes()


def test_what_is_the_same_is_not_there(tmp_path: Path) -> None:
    assert of(BEFORE) == []
    assert list(changes.read(tmp_path, policy_id.compute([]))) == []


def test_what_is_not_as_it_was_written_is_data_loss(tmp_path: Path) -> None:
    digest = written(tmp_path, *of(moved(1)))
    (tmp_path / "changes" / "model-00001.safetensors").unlink()
    with pytest.raises(DataLoss):
        list(changes.read(tmp_path, digest))
