"""Merged weights are named as the base's, and compute what base and adapters compute."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from ratchet_testing.llama import random_llama  # noqa: E402
from trainer_service.verl.rank import lora  # noqa: E402

pytestmark = pytest.mark.verl


def llama() -> Any:
    return random_llama(tie_word_embeddings=True, num_hidden_layers=2)


def biased() -> Any:
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=512, num_hidden_layers=2, **shape))


def transposed() -> Any:
    """Its layers keep their weights the other way round."""
    return GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=32, n_layer=2, n_head=4))


@pytest.mark.parametrize("make", [llama, biased, transposed])
def test_merged_weights_compute_the_same(make: Any) -> None:
    torch.manual_seed(0)
    policy, whole = make().eval(), make().eval()
    base = {name: value.clone() for name, value in policy.state_dict().items()}
    learning = get_peft_model(policy, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules="all-linear"))
    assert lora.is_in(learning)
    assert not lora.is_in(whole)
    for name, value in learning.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    merged = dict(lora.merged(learning))
    assert set(merged) == set(base)
    changed = {name for name, value in merged.items() if not torch.equal(value, base[name])}
    assert changed
    assert all(name.endswith("weight") and (".h." in name or ".layers." in name) for name in changed)
    whole.load_state_dict(merged)
    asked = torch.arange(9)[None]
    with torch.no_grad():
        torch.testing.assert_close(whole(asked).logits, learning(asked).logits, rtol=1e-4, atol=1e-5)
        with learning.disable_adapter():  # the base has not changed
            assert not torch.allclose(whole(asked).logits, learning(asked).logits, atol=1e-3)
