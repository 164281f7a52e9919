"""Models small enough to make and load in a second, for the tests that are marked `vllm`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet_testing.llama import random_llama

MakeModel = Callable[..., Path]


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """`make_model(tied=True)`: the folder of a random Llama of 1.6M parameters with a tokenizer of its own.

    `known=False`: of a GPT-Neo of the same size, which vLLM does not know.
    """
    torch = pytest.importorskip("torch", reason="needs the rollout environment")
    transformers = pytest.importorskip("transformers", reason="needs the rollout environment")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    def make(*, tied: bool = True, dtype: str = "float32", known: bool = True) -> Path:
        folder = tmp_path_factory.mktemp("model")
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        special = ["<pad>", "<bos>", "<eos>", "<|user|>", "<|assistant|>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=special, initial_alphabet=alphabet)
        raw.train_from_iterator(["def f(xs): return sum(x * x for x in xs if x % 2 == 0)\n"], trainer)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=raw, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
        )
        tokenizer.chat_template = (
            "{{ bos_token }}{% for tool in tools or [] %}{{ tool['function']['name'] }} {% endfor %}"
            "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}"
            "{% for call in m['tool_calls'] or [] %}{{ call['function']['arguments']['city'] }}{% endfor %}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}"
        )
        tokenizer.save_pretrained(folder)
        ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        if known:
            model = random_llama(tie_word_embeddings=tied, initializer_range=0.2, **ids)
        else:
            torch.manual_seed(0)
            shape = {"vocab_size": 512, "hidden_size": 192, "num_layers": 4, "num_heads": 6}
            attention = {"attention_types": [[["global", "local"], 2]], "max_position_embeddings": 256}
            config = transformers.GPTNeoConfig(initializer_range=0.2, **shape, **attention, **ids)
            model = transformers.GPTNeoForCausalLM(config)
        model.to(getattr(torch, dtype)).save_pretrained(folder)
        return folder

    return make
