"""vLLM keeps what it compiled under a hash in which the model's path is (config/model.py, compute_hash), so that each
version of a model would compile the same graphs again. Here the content of its config.json is there in place of it:
weights are no part of what is compiled for a GPU. What is compiled for a CPU may hold weights, and is left alone."""

import copy
import hashlib
from pathlib import Path

from vllm.config import ModelConfig
from vllm.platforms import current_platform

_theirs = ModelConfig.compute_hash


def compute_hash(config: ModelConfig) -> str:
    described = Path(config.model) / "config.json"
    if not described.is_file():
        return str(_theirs(config))
    same = copy.copy(config)
    same.model = hashlib.sha256(described.read_bytes()).hexdigest()
    return str(_theirs(same))


def apply() -> None:
    if not current_platform.is_cpu():
        ModelConfig.compute_hash = compute_hash
