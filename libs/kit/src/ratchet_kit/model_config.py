"""What a Hugging Face model is, by its config.json."""

import json
from collections.abc import Mapping
from typing import Any


def read(text: str | bytes) -> Mapping[str, Any]:
    """A config.json; empty where it is no JSON object: whoever loads the model says what is wrong with it."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


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
