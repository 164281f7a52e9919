"""What keeps a model's folder from being trained is known from its config and the headers of its weights."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.allowed_sources import Places
from trainer_service.adapters.bases import inspected
from trainer_service.domain.inputs.found import Shape

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
        ({"architectures": ["BertModel"]}, "BertModel, cannot be trained"),
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
    ("changes", "said"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel, cannot be trained"),
        ({"architectures": ["LlamaForCausalLM", "LlamaModel"]}, "names 2 architectures"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, "which 3 num_key_value_heads cannot share"),
        ({"num_attention_heads": 4, "num_key_value_heads": 0}, "which 0 num_key_value_heads cannot share"),
        ({"num_attention_heads": 3}, "hidden_size 4, which 3 num_attention_heads cannot share"),
        ({"tie_word_embeddings": False}, "have no lm_head.weight, and config.json says that it is not tied"),
        ({"final_logit_softcapping": 30.0}, "has final_logit_softcapping 30.0, which training would leave out"),
        ({"logits_scaling": 8}, "has logits_scaling 8, which training would leave out"),
        ({"eos_token_id": None}, "nothing ends its answers"),
    ],
)
def test_what_is_legal_and_cannot_be_trained(model: Path, changes: dict[str, Any], said: str) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | changes))
    assert any(said in fault for fault in faults(model))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("transformer.wte.weight", "transformer.h.0.w", "transformer.h.1.w"), "models of GPT-2's shape"),
        (("model.decoder.embed_tokens.weight", "model.decoder.layers.0.w"), "models of GPT-2's shape"),
        ((*TENSORS, "lm_head.bias"), "lm_head.bias, which training would leave out"),
    ],
)
def test_weights_of_another_shape_than_training_knows(model: Path, names: Sequence[str], said: str) -> None:
    (model / "model.safetensors").write_bytes(safetensors(dict.fromkeys(names, (6, 4))))
    assert any(said in fault for fault in faults(model))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 2},  # neither num_key_value_heads nor head_dim
        {"num_attention_heads": 3, "head_dim": 2},
        {"eos_token_id": [1, 0], "bos_token_id": None, "pad_token_id": None},
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "sliding_window": 4096},
        {"tie_word_embeddings": True, "final_logit_softcapping": None, "logit_scale": 1.0},
    ],
)
def test_what_is_odd_and_can_be_trained(model: Path, changes: dict[str, Any]) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | changes))
    assert faults(model) == []


def test_a_tokenizer_of_another_vocabulary(model: Path) -> None:
    def said(**tokenizer: Any) -> list[str]:
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        return faults(model)

    pad = [{"id": 6, "content": "<|pad|>"}]
    assert said(model={"vocab": {"a": 0, "b": 5}}) == []
    assert said(model={"vocab": {"a": 0}}, added_tokens=pad) == []  # where nothing writes it
    assert said(model={"vocab": {"a": 0, "b": 6}}) == [
        "its tokenizer writes tokens up to 6, and config.json says that it knows 6"
    ]
    (model / "chat_template.jinja").write_text("{% for m in messages %}<|pad|>{{ m.content }}{% endfor %}")
    (fault,) = said(model={"vocab": [["a", 0.0]]}, added_tokens=pad)
    assert fault == "its chat template writes <|pad|>, whose id is 6: it knows 6 tokens"


def test_where_the_token_that_ends_an_answer_is_named(model: Path) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | {"eos_token_id": None}))
    (model / "generation_config.json").write_text('{"eos_token_id": [1, 0]}')
    assert faults(model) == []
    (model / "generation_config.json").write_text("{}")
    assert "nothing ends its answers" in faults(model)[0]
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')  # has one by itself
    assert faults(model) == []
    (model / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|end|>"}}')
    assert faults(model) == []


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
    assert faults(model) == ["its tokenizer.json is not a JSON object (a pointer of Git LFS, or another page?)"]


def test_a_shard_that_was_not_downloaded(model: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (fault,) = faults(model)
    assert fault == "model-2.safetensors, and 1 more, which model.safetensors.index.json names, is missing"
    (model / "model.safetensors.index.json").write_text("[")
    assert "is not JSON" in faults(model)[0]
