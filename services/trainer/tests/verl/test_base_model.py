"""A base that transformers would fill up, or not load, is refused with what it lacks."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from ratchet_kit.errors import InvalidArgument  # noqa: E402
from trainer_service.verl import base_model  # noqa: E402

pytestmark = pytest.mark.verl

STARTER = Path(__file__).parents[4] / "models/starter"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STARTER, tmp_path / "base"))


def test_a_whole_one_is_taken(base: Path) -> None:
    base_model.check(base)


def test_a_tokenizer_that_cannot_be_loaded_is_said(base: Path) -> None:
    (base / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidArgument, match="the base cannot be loaded"):
        base_model.check(base)


def test_a_base_that_no_reward_model_is_made_of(tmp_path: Path, base: Path) -> None:
    base_model.check(base, scores=True)
    config = AutoConfig.for_model("olmo", **SMALL | {"intermediate_size": 8, "num_key_value_heads": 2})
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "odd")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(base / file, tmp_path / "odd" / file)
    base_model.check(tmp_path / "odd")
    with pytest.raises(InvalidArgument, match="no reward model can be made of a olmo model"):
        base_model.check(tmp_path / "odd", scores=True)


def test_what_its_weights_lack_is_named(base: Path) -> None:
    weights = load_file(base / "model.safetensors")
    del weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InvalidArgument, match=r"they lack model\.layers\.2\.mlp\.up_proj\.weight$"):
        base_model.check(base)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 600}, r"lm_head\.weight, model\.embed_tokens\.weight differ in shape"),
        ({"model_type": "nonesuch"}, "cannot be loaded: .*nonesuch"),
        ({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}, "they lack .*bias, and 9 more"),
    ],
)
def test_a_config_of_another_model_is_said(base: Path, changes: dict[str, object], said: str) -> None:
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InvalidArgument, match=said):
        base_model.check(base)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_no_numbers_are_named(base: Path, value: float, dtype: torch.dtype) -> None:
    weights = {name: tensor.to(dtype) for name, tensor in load_file(base / "model.safetensors").items()}
    weights["model.layers.2.mlp.up_proj.weight"][3, 5] = value
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        InvalidArgument, match=r"tensor model\.layers\.2\.mlp\.up_proj\.weight in .* has a value that is NaN"
    ):
        base_model.check(base)


SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16}


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("gpt2", {}, "a gpt2 model cannot be trained: its config has no num_key_value_heads"),
        ("opt", {"word_embed_proj_dim": 8, "ffn_dim": 8}, "a opt model cannot be trained: its config has no num_key"),
        ("phi", {"intermediate_size": 8}, "its head has a bias"),
        (
            "gemma2",
            {"intermediate_size": 8, "num_key_value_heads": 1, "head_dim": 4},
            "final_logit_softcapping would be",
        ),
        ("cohere", {"intermediate_size": 8}, "its logit_scale would be left out"),
    ],
)
def test_what_the_passes_of_training_cannot_be_made_of(
    tmp_path: Path, kind: str, changes: dict[str, Any], said: str
) -> None:
    config = AutoConfig.for_model(kind, **SMALL | changes)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "odd")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(STARTER / file, tmp_path / "odd" / file)
    with pytest.raises(InvalidArgument, match=said):
        base_model.check(tmp_path / "odd")
