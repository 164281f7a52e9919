"""How much memory a policy on a CPU takes for keys and values."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rollout_service.adapters.engines import kv_cache
from rollout_service.adapters.engines.engine import EngineDefaults, engine_spec
from rollout_service.domain.policy import Dtype, EngineOptions, PolicyId, PolicyName
from rollout_service.domain.ports import ModelFolder
from rollout_service.settings import Settings

SMOLLM2 = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
GIB = 1 << 30


@pytest.mark.parametrize(
    ("changes", "dtype", "expected"),
    [
        ({}, Dtype.FLOAT32, 46_080),
        ({}, Dtype.BFLOAT16, 23_040),
        ({"head_dim": 128}, Dtype.FLOAT32, 92_160),
        ({"num_key_value_heads": None}, Dtype.FLOAT32, 138_240),
        ({"num_hidden_layers": 15}, Dtype.FLOAT32, 23_040),
    ],
)
def test_a_token_takes_keys_and_values_in_each_layer(changes: dict[str, Any], dtype: Dtype, expected: int) -> None:
    assert kv_cache.bytes_per_token(SMOLLM2 | changes, dtype) == expected
    assert kv_cache.bytes_per_token({"text_config": SMOLLM2 | changes}, dtype) == expected


@pytest.mark.parametrize("name", sorted(SMOLLM2.keys() - {"num_key_value_heads"}))
@pytest.mark.parametrize("value", [0, -1, "8", [8], 8.5, {}])
def test_a_config_of_something_else_takes_the_share(name: str, value: Any) -> None:
    """vLLM says what is wrong with it."""
    chosen = kv_cache.choose(SMOLLM2 | {name: value}, Dtype.FLOAT32, None, 128, GIB, 16 * GIB)
    assert chosen.size_bytes == GIB


@pytest.mark.parametrize(
    ("context", "sequences", "share", "free", "expected", "reason"),
    [
        (None, 128, 2 * GIB, 16 * GIB, 2 * GIB, "share of the machine"),
        (512, 16, 2 * GIB, 16 * GIB, 46_080 * (512 + 32) * 16, "16 sequences"),
        (None, 128, GIB // 4, 16 * GIB, 46_080 * (8192 + 32), "one sequence"),
        (None, 128, 2 * GIB, 2 * GIB, GIB, "free memory"),
        (None, 128, GIB // 4, GIB // 2, kv_cache.LEAST, "half of the free memory"),
        (None, 128, 2 * GIB, -GIB, kv_cache.LEAST, "the least"),
        (64, 2, 2 * GIB, 16 * GIB, kv_cache.LEAST, "the least"),
    ],
)
def test_it_holds_all_sequences_as_far_as_the_memory_goes(
    context: int | None, sequences: int, share: int, free: int, expected: int, reason: str
) -> None:
    chosen = kv_cache.choose(SMOLLM2, Dtype.FLOAT32, context, sequences, share, free)
    assert chosen.size_bytes == expected
    assert reason in chosen.reason


def test_a_model_of_another_kind_gets_its_share() -> None:
    chosen = kv_cache.choose({"n_layer": 12, "n_embd": 768}, Dtype.FLOAT32, None, 128, GIB, 16 * GIB)
    assert chosen.size_bytes == GIB


def test_what_is_asked_for_goes_before_the_setting_and_that_before_the_choice(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2))
    model = ModelFolder(tmp_path, PolicyId("sha256:0"), 0)

    def size_of(set_bytes: int | None, asked: int | None) -> int | None:
        defaults = EngineDefaults("cpu", 1, set_bytes, 1, 0.9, True, timedelta(seconds=1), kv_cache_share=300 << 20)
        options = EngineOptions(Dtype.FLOAT32, max_model_len=6000, kv_cache_bytes=asked)
        return engine_spec(defaults, PolicyName("p"), model, options, ()).kv_cache_bytes

    assert size_of(64 << 20, 32 << 20) == 32 << 20
    assert size_of(64 << 20, None) == 64 << 20
    assert size_of(None, None) == 46_080 * 6032


def test_all_policies_together_may_take_half_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet_kit.memory.of_machine", lambda: 24 * GIB)
    assert Settings().kv_cache_share == 2 * GIB
    assert Settings(capacity=1).kv_cache_share == 12 * GIB
    assert Settings().kv_cache_bytes is None
