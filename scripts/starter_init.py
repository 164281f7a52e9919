"""Builds the starter policy before any training: a tokenizer of its own, and random weights.

    .venvs/trainer/bin/python scripts/starter_init.py FOLDER

Runs in the trainer environment (torch, transformers, tokenizers). The same files come out at every run: the tokenizer
is trained on the train split of the composed problems alone, the weights are drawn from a fixed seed.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from ratchet_problems import load

SEED = 0
VOCABULARY = 640
CONTEXT = 256
PAD, END, SYSTEM, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}" + END + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    write_tokenizer(tokenizer, folder)
    model = random_model(tokenizer)
    model.save_pretrained(folder)
    print(f"{folder}: {model.num_parameters():,} parameters, {tokenizer.get_vocab_size()} tokens")


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE of prompts and references. Each digit is a token: constants are copied digit by digit."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, END, SYSTEM, USER, ASSISTANT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def corpus() -> Iterator[str]:
    for problem in load("composed/train"):
        yield problem.prompt
        yield from problem.references


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """By hand and not by `save_pretrained`, whose form changes between the versions of training and serving."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "model_max_length": CONTEXT,
        "pad_token": PAD,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def random_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    """Two million parameters. The output layer is not tied to the embedding: it learns faster at this size."""
    torch.manual_seed(SEED)
    ends = {"pad_token_id": tokenizer.token_to_id(PAD), "eos_token_id": tokenizer.token_to_id(END)}
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        dtype="float32",
        **ends,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(**ends)
    return model


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: starter_init.py FOLDER")
    main(Path(sys.argv[1]))
