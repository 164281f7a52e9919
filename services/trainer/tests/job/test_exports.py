"""An export is its base with other weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit import policy_id
from trainer_service.job.run import exports

STARTER = Path(__file__).parents[4] / "models/starter"
OF_VERL = {
    "dtype": "bfloat16",
    "attn_implementation": "eager",
    "eos_token_id": 0,
    "architectures": ["LlamaForCausalLM"],
}
OF_BASE = {
    "architectures": ["LlamaForCausalLM"],
    "eos_token_id": [1, 0],
    "torch_dtype": "float16",
    "tie_word_embeddings": False,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "text_config": {"dtype": "float16"},
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(STARTER, tmp_path / "base"))
    (folder / "config.json").write_text(json.dumps(OF_BASE))
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 0], "temperature": 0.6}')
    (folder / "LICENSE").write_text("As you like.")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tools.jinja").write_text("{{ tools }}")
    (folder / "pytorch_model.bin").write_bytes(b"others")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """As verl writes it: float32, and a config that says otherwise."""
    folder = tmp_path / "huggingface"
    folder.mkdir()
    shutil.copyfile(STARTER / "model.safetensors", folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(OF_VERL))
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "added_tokens.json").write_text("{}")
    return folder


def read(model: Path, name: str = "config.json") -> Any:
    return json.loads((model / name).read_text())


def test_it_has_the_bases_files_and_says_what_dtype_it_holds(base: Path, model: Path) -> None:
    for _ in range(2):
        exports.dress(model, base)
        assert read(model) == OF_BASE | {"torch_dtype": "float32", "text_config": {"dtype": "float32"}}
        assert read(model, "generation_config.json") == {"eos_token_id": [1, 0], "temperature": 0.6}
        assert {file.relative_to(model).as_posix() for file in model.rglob("*") if file.is_file()} == {
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "additional_chat_templates/tools.jinja",
            "LICENSE",
        }


def test_it_reads_and_answers_as_its_base_does(tmp_path: Path, model: Path) -> None:
    exports.dress(model, STARTER)
    assert policy_id.settings_of_folder(model) == policy_id.settings_of_folder(STARTER)


def test_a_base_that_names_no_dtype(base: Path, model: Path) -> None:
    (base / "config.json").write_text("{}")
    exports.dress(model, base)
    assert read(model) == {"dtype": "float32"}


def test_a_reward_model_keeps_what_makes_it_one(base: Path, model: Path) -> None:
    of_kind = {"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "pad_token_id": 0}
    (model / "config.json").write_text(json.dumps(OF_VERL | of_kind | {"classifier_dropout": 0.0}))
    exports.dress(model, base)
    found = read(model)
    assert {name: found[name] for name in of_kind} == of_kind
    assert found["eos_token_id"] == [1, 0]
    assert "classifier_dropout" not in found
