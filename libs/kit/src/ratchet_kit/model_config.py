"""What a Hugging Face model is, by its config.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GENERATION = "generation_config.json"


def read(text: str | bytes) -> Mapping[str, Any]:
    """A config.json; empty where it is not a JSON object: whoever loads the model says what is wrong with it."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def base_config(folder: Path) -> Mapping[str, Any]:
    """A model's config.json."""
    return _read(folder / "config.json") or {}


def stops_of(folder: Path) -> tuple[int, ...]:
    """The tokens at which an engine stops, by a model's files; its tokenizer may name one more."""
    return stops(base_config(folder), _read(folder / GENERATION))


def _read(file: Path) -> Mapping[str, Any] | None:
    return read(file.read_bytes()) if file.is_file() else None


def outputs(config: Mapping[str, Any]) -> int:
    """Numbers that the model gives for a text, so 1 of a reward model, and 0 of a model that writes. A sequence
    classifier has as many as labels, which are two where the config names none (transformers, PretrainedConfig)."""
    architectures = config.get("architectures")
    kinds = architectures if isinstance(architectures, list) else []
    if not any(str(kind).endswith("ForSequenceClassification") for kind in kinds):
        return 0
    labels = config.get("id2label")
    if isinstance(labels, dict):
        return len(labels)
    count = config.get("num_labels")
    return count if isinstance(count, int) else 2


def stops(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> tuple[int, ...]:
    """The tokens that end an answer, in order: those of `generation`, the model's generation_config.json, or of its
    config where it has none (transformers, GenerationConfig.from_model_config). The tokenizer's own may be another."""
    said = config.get("eos_token_id") if generation is None else generation.get("eos_token_id")
    if generation is None and said is None and isinstance(of_text := config.get("text_config"), dict):
        said = of_text.get("eos_token_id")
    ids = said if isinstance(said, list) else [said]
    return tuple(id for id in ids if isinstance(id, int) and not isinstance(id, bool) and id >= 0)
