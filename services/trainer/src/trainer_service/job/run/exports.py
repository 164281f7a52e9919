"""What a run exports: its base with other weights. Paths and files: no torch, no verl.

verl writes the files beside the weights anew, from what it has read of them and made of it: the tokenizer's one end of
an answer for the config's several, bfloat16 whatever it stores, how its own process computed attention.
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet_kit import model_config, policy_id

_CONFIG = "config.json"
_TEMPLATES = "additional_chat_templates"
_INDEX = "model.safetensors.index.json"
_OF_BASE = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".index.json"),
    ".md",
)
"""How the files end that are the base's alone: weights, and what is said of it. Its licence is the export's, too."""
_OF_KIND = ("architectures", "id2label", "label2id", "pad_token_id")
"""What a reward model's config has of its own."""
# The names of safetensors' header, and those of Transformers' config.
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def dress(model: Path, base: Path) -> None:
    """Gives the weights that verl wrote into `model` the base's files. May be done twice."""
    written = model_config.read((model / _CONFIG).read_bytes())
    config = dict(model_config.read((base / _CONFIG).read_bytes()))
    if model_config.outputs(written):
        config |= {name: written[name] for name in _OF_KIND if name in written}
    if dtype := _dtype(model):
        config = _with_dtype(config, dtype)
        if not {"dtype", "torch_dtype"} & {*config}:
            config["dtype"] = dtype
    for file in model.iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        elif file.suffix != ".safetensors" and file.name != _INDEX:
            file.unlink()
    for file in base.iterdir():
        if file.is_file() and not file.name.endswith(_OF_BASE):
            shutil.copyfile(file, model / file.name)
    if (base / _TEMPLATES).is_dir():
        shutil.copytree(base / _TEMPLATES, model / _TEMPLATES)
    (model / _CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def _dtype(model: Path) -> str | None:
    """That most tensors are stored in."""
    file = min(model.glob("*.safetensors"), default=None)
    if file is None:
        return None
    stored = Counter(tensor.dtype for tensor in policy_id.read_safetensors(file)).most_common(1)
    return _DTYPES.get(stored[0][0]) if stored else None


def _with_dtype(config: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Wherever it is named: the config of a model of images has one of its text."""
    changed = {name: _with_dtype(value, dtype) for name, value in config.items() if isinstance(value, dict)}
    return {**config, **changed, **{name: dtype for name in ("dtype", "torch_dtype") if name in config}}
