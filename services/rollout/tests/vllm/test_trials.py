"""Which models transformers' `generate` is right for, and in what batches: tiny ones, as transformers makes them."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the rollout environment")
transformers = pytest.importorskip("transformers", reason="needs the rollout environment")

import torch  # noqa: E402

from rollout_service.adapters.transformers.trials import Batching, tried  # noqa: E402

pytestmark = pytest.mark.vllm

IDS = {"vocab_size": 512, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
BART = {"d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}


def made(name: str, architecture: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**IDS, **settings)
    return getattr(transformers, f"{name}{architecture}")(config).eval()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            ("GPTNeo", "ForCausalLM", {"num_layers": 2, "num_heads": 4, "attention_types": [[["global"], 2]]}),
            (True, True),
        ),
        (("Bart", "ForCausalLM", BART | {"init_std": 0.2}), (True, False)),
        (("Rwkv", "ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2}), (False, False)),
        (("RoFormer", "ForCausalLM", BERT | {"embedding_size": 64, "is_decoder": True}), (True, True)),
    ],
)
def test_prompts_are_completed_together_where_each_is_as_alone(
    model: tuple[str, str, dict[str, Any]], expected: tuple[bool, bool]
) -> None:
    """transformers' RWKV mixes the rows of a batch; of Bart's kind padding shifts the positions."""
    name, architecture, settings = model
    assert tried(made(name, architecture, **settings)) == Batching(*expected)


@pytest.mark.parametrize("name", ["RoFormer", "MegatronBert"])
def test_an_encoder_is_no_model_to_generate_with(name: str) -> None:
    settings = BERT | ({"embedding_size": 64} if name == "RoFormer" else {})
    with pytest.raises(ValueError, match=f"{name}ForCausalLM: the model reads what comes after a token"):
        tried(made(name, "ForCausalLM", **settings))


def test_what_is_not_batched_is_taken_one_by_one() -> None:
    assert [Batching(False, False).takes(lengths) for lengths in ([3], [3, 3], [3, 4])] == [True, False, False]
    assert [Batching(True, False).takes(lengths) for lengths in ([3], [3, 3], [3, 4])] == [True, True, False]
    assert [Batching(True, True).takes(lengths) for lengths in ([3], [3, 3], [3, 4])] == [True, True, True]
