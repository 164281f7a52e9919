"""Exports have the weights that the engine was sent, bit for bit."""

import json
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

import torch
from safetensors.torch import save_file

from ratchet_kit import policy_id
from trainer_service.verl.precision import round_weights
from trainer_service.verl.rank.weights import gather

pytestmark = pytest.mark.verl


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 2**-130, 3e38])
    return {"a": torch.randn(64, 33), "b": ties, "c": torch.randn(7) * 1e-6}


def saved(folder: Path, weights: dict[str, torch.Tensor]) -> Path:
    for number, (name, tensor) in enumerate(weights.items()):
        save_file({name: tensor}, folder / f"model-{number}.safetensors", metadata={"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(weights, "model")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_an_export_has_the_policy_id_of_what_was_sent(
    tmp_path: Path, weights: dict[str, torch.Tensor], dtype: str
) -> None:
    folder = saved(tmp_path, weights)
    sent = policy_id.compute(gather(weights.items(), getattr(torch, dtype), keep=True))
    for _ in range(2):
        round_weights(folder, dtype)  # type: ignore[arg-type]
        assert policy_id.of_folder(folder) == sent
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(one.stat().st_size for one in folder.glob("*.safetensors"))
    assert [*index["weight_map"]] == ["a", "b", "c"]
    assert not [*folder.glob("*.partial")]
