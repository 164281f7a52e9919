"""A base that transformers would fill up, or not load, is refused with what it lacks."""

import json
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from safetensors.torch import load_file, save_file  # noqa: E402

from ratchet_kit.errors import InvalidArgument  # noqa: E402
from trainer_service.verl import base_model  # noqa: E402

pytestmark = pytest.mark.verl

STARTER = Path(__file__).parents[4] / "models/starter"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STARTER, tmp_path / "base"))


def test_a_whole_one_is_taken(base: Path) -> None:
    base_model.check(base)


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
