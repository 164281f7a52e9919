"""How much memory an engine on a CPU takes for keys and values, where nobody says. On GPUs vLLM finds that out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollout_service.domain.policy import Dtype

LEAST = 256 << 20
"""Bytes, also where the machine has less."""
BLOCK = 32
"""Tokens: the least that vLLM's attention takes on a CPU, where it takes 128 if nobody says. The cache is handed out in
such blocks, so that a sequence has one that is partly empty; and only whole ones are shared, as the completions of a
group do those of their prompt. For 16 prompts of 40 tokens, with 8 completions of 72 each, the starter takes 1.6 s of
a core, and with 128 2.0 s. Long prompts decode as fast or faster; one of 3,000 tokens is read in 11 % more time."""


@dataclass(frozen=True, slots=True)
class KvCache:
    size_bytes: int
    reason: str
    """What bounds it, for the log."""


def choose(
    config: Mapping[str, Any], dtype: Dtype, context: int | None, sequences: int, share: int, free: int
) -> KvCache:
    """Room for `sequences` of the whole context, or the policy's share of the machine where that is less.

    One sequence may take more than the share, but nothing more than half of the free memory. `config`: the model's.
    `context`: tokens; None: as the config says. `share` and `free`: bytes, `free` without the model's weights.
    """
    per_token, context = bytes_per_token(config, dtype), context or _number(_text(config), "max_position_embeddings")
    most = KvCache(free // 2, "half of the free memory")
    fair = KvCache(share, "the policy's share of the machine")
    if per_token and context:
        one = per_token * (context + BLOCK)
        if one > share:
            fair = KvCache(one, "one sequence of the whole context")
        fair = min(fair, KvCache(one * sequences, f"{sequences} sequences of the whole context"), key=_size)
    return max(min(most, fair, key=_size), KvCache(LEAST, "the least"), key=_size)


def bytes_per_token(config: Mapping[str, Any], dtype: Dtype) -> int | None:
    """Of keys and values in all layers; at least what they take. None for a config that does not say it as most do."""
    text = _text(config)
    layers, queries, hidden = (
        _number(text, name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    heads = _number(text, "num_key_value_heads") or queries
    width = _number(text, "head_dim") or (hidden // queries if hidden and queries else None)
    if not (layers and heads and width):
        return None
    return 2 * layers * heads * width * (4 if dtype is Dtype.FLOAT32 else 2)


def config_of(model: Path) -> Mapping[str, Any]:
    """Empty where it cannot be read: vLLM says what is wrong with it."""
    try:
        read = json.loads((model / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model of texts and pictures has the part that reads texts apart."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def _number(config: Mapping[str, Any], name: str) -> int | None:
    """None for anything else than a number above 0: vLLM says what is wrong with it."""
    value = config.get(name)
    return value if isinstance(value, int) and value > 0 else None


def _size(cache: KvCache) -> int:
    return cache.size_bytes
