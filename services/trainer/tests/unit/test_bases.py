"""What keeps a model's folder from being trained is known from its config and the headers of its weights."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.places import Places
from trainer_service.adapters.bases import inspected
from trainer_service.domain.footprint import Shape

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 6,
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "dtype": "bfloat16",
}
TENSORS = {"model.embed_tokens.weight": (6, 4), "model.layers.0.up.weight": (8, 4), "model.layers.1.up.weight": (8, 4)}


def safetensors(shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32", cut: int = 0) -> bytes:
    header, at = {}, 0
    for name, (rows, columns) in shapes.items():
        header[name] = {
            "dtype": dtype,
            "shape": [rows, columns],
            "data_offsets": [at, at := at + 4 * rows * columns],
        }
    at = max(at, 0)
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    return (struct.pack("<Q", len(text)) + text + b"\0" * at)[: -cut or None]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(safetensors(TENSORS))
    return tmp_path


def faults(model: Path) -> list[str]:
    return [*inspected(Places([str(model)]), str(model)).faults]


def test_a_whole_model_has_none_and_its_parameters_are_counted(model: Path) -> None:
    assert faults(model) == []
    found = inspected(Places([str(model)]), str(model))
    assert found.shape == Shape(6 * 4 + 2 * 8 * 4, layers=2, hidden=4, inner=8, vocabulary=6)  # not of bfloat16's size


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": None}, "names no architectures"),
        ({"architectures": ["BertModel"]}, "BertModel, is none that writes"),
        ({"model_type": None}, "names no model_type"),
        ({"vocab_size": 0}, "vocab_size 0, which must be 1 or more"),
        ({"hidden_size": "4"}, "hidden_size '4', which must be 1 or more"),
        ({"vocab_size": 7}, "model.embed_tokens.weight is 6x4, and config.json says 7x4"),
        ({"num_hidden_layers": 3}, "weights have 2 layers, and config.json says 3"),
        ({"num_hidden_layers": 1}, "weights have 2 layers, and config.json says 1"),
    ],
)
def test_a_config_that_is_not_of_its_weights(model: Path, changes: dict[str, Any], said: str) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | changes))
    assert any(said in fault for fault in faults(model))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (b"", "is not a safetensors file"),
        (b"\0" * 10, "is not a safetensors file"),
        (struct.pack("<Q", 1 << 60), "its header would have"),
        (safetensors(TENSORS, cut=1), "model.safetensors is cut short"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "a pointer of Git LFS"),
        (safetensors({"model.layers.0.w": (-1, 4)}), "is not a safetensors file"),
    ],
)
def test_weights_that_are_none(model: Path, weights: bytes, said: str) -> None:
    (model / "model.safetensors").write_bytes(weights)
    assert any(said in fault for fault in faults(model))


@pytest.mark.parametrize(
    ("changes", "tensors"),
    [
        ({"vocab_size": 5}, TENSORS),  # rows beyond it, as Llama 3.2 Vision has
        ({"intermediate_size": [8, 8]}, TENSORS),  # by layer, as Gemma 3n
        ({"word_embed_proj_dim": 4, "hidden_size": 8}, TENSORS),  # as OPT
        ({"num_hidden_layers": 1, "num_nextn_predict_layers": 1}, TENSORS),  # as DeepSeek V3
        ({}, TENSORS | {"model.layers." + "1" * 5000 + ".w": (1, 1)}),
        ({}, TENSORS | {f"vision_tower.encoder.layers.{place}.w": (1, 1) for place in range(5)}),
    ],
)
def test_what_some_models_are(model: Path, changes: dict[str, Any], tensors: dict[str, tuple[int, int]]) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | changes))
    (model / "model.safetensors").write_bytes(safetensors(tensors))
    assert faults(model) == []


def test_what_is_quantised_and_what_has_experts_is_told_apart(model: Path) -> None:
    def told() -> tuple[str, bool]:
        found = inspected(Places([str(model)]), str(model))
        assert not found.faults
        return found.quantised, found.has_experts

    assert told() == ("", False)
    (model / "config.json").write_text(json.dumps(CONFIG | {"num_local_experts": 8}))
    assert told() == ("", True)
    (model / "model.safetensors").write_bytes(safetensors(TENSORS, dtype="F8_E4M3"))
    assert told() == ("its model.embed_tokens.weight is F8_E4M3", True)
    (model / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": {"bits": 4}}))
    assert told() == ("its config.json has a quantization_config", False)


def test_weights_that_the_index_does_not_name_are_no_part_of_it(model: Path) -> None:
    (model / "consolidated.safetensors").write_bytes(safetensors(TENSORS))
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model.safetensors"}}')
    found = inspected(Places([str(model)]), str(model))
    assert found.size_bytes == (model / "model.safetensors").stat().st_size
    assert found.shape
    assert found.shape.parameters == 6 * 4 + 2 * 8 * 4


def test_a_tokenizer_that_was_not_downloaded(model: Path) -> None:
    (model / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert faults(model) == ["its tokenizer.json is no JSON object (a pointer of Git LFS, or another page?)"]


def test_a_shard_that_was_not_downloaded(model: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (fault,) = faults(model)
    assert fault == "model-2.safetensors, and 1 more, which model.safetensors.index.json names, is missing"
    (model / "model.safetensors.index.json").write_text("[")
    assert "is not JSON" in faults(model)[0]
