"""A Llama small enough to make and load in a second, in the environments that have torch and transformers."""

from typing import Any

import pytest


def random_llama(seed: int = 0, **config: Any) -> Any:
    """A LlamaForCausalLM of 1.6 million random parameters, or as `config` has it. Skips the test elsewhere."""
    torch = pytest.importorskip("torch", reason="needs the trainer or the rollout environment")
    transformers = pytest.importorskip("transformers", reason="needs the trainer or the rollout environment")
    torch.manual_seed(seed)
    small = {
        "vocab_size": 512,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
    }
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**small | config))
