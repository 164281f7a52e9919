"""A model that answers what it is given to answer: a Llama of one layer whose tokens are whole prompts and answers.

Its attention adds nothing, so that the next token depends on the last one alone: a prompt is one token, which its
answer follows, and then the end. It is loaded, asked and measured like any model, and what it can do is known.
"""

import itertools
import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

STARTER = Path(__file__).parents[2] / "models" / "starter"
HEADS, HEAD = 8, 32
"""What the engine's attention has kernels for."""
_END, _KNOWN = 1, 640
"""Of the starter's tokenizer: the token of the end, and how many tokens it has."""


def write(folder: Path, answers: Mapping[str, str | tuple[str, ...]]) -> Path:
    """A model in the folder that says `answers[prompt]` to a chat whose last message is `prompt`; 127 of them at most.
    An answer may be several tokens, each of which always has the same after it.

    To anything else it says nothing of use.
    """
    hidden = HEADS * HEAD
    chains = {prompt: (answer,) if isinstance(answer, str) else answer for prompt, answer in answers.items()}
    texts = [*answers, *dict.fromkeys(text for chain in chains.values() for text in chain)]
    assert len(texts) < hidden
    ids = {text: _KNOWN + index for index, text in enumerate(texts)}
    assert len(ids) == len(texts), "no answer is a prompt"
    follows: dict[int, int] = {}
    for prompt, chain in chains.items():
        tokens = [ids[prompt], *(ids[text] for text in chain), _END]
        for token, following in itertools.pairwise(tokens):
            assert follows.setdefault(token, following) == following, "a token has one after it"

    folder.mkdir(parents=True)
    for name in ("generation_config.json", "tokenizer_config.json"):
        shutil.copyfile(STARTER / name, folder / name)
    (folder / "chat_template.jinja").write_text("{{ messages[-1]['content'] }}")
    tokenizer = json.loads((STARTER / "tokenizer.json").read_text())
    tokenizer["added_tokens"] += [
        {"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        | {"special": False}
        for text, id in ids.items()
    ]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    size = _KNOWN + len(texts)
    config = json.loads((STARTER / "config.json").read_text())
    config |= {"vocab_size": size, "hidden_size": hidden, "num_hidden_layers": 1, "intermediate_size": hidden}
    config |= {"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD}
    (folder / "config.json").write_text(json.dumps(config))

    # Each token that is followed has a direction of its own; the head reads from it what follows.
    direction = {id: index for index, id in enumerate(follows)}
    layer = "model.layers.0"
    tensors = {
        "model.embed_tokens.weight": _matrix(size, hidden, {(id, direction[id]): 1.0 for id in follows}),
        "lm_head.weight": _matrix(size, hidden, _read(follows, direction)),
        "model.norm.weight": _ones(hidden),
        f"{layer}.input_layernorm.weight": _ones(hidden),
        f"{layer}.post_attention_layernorm.weight": _ones(hidden),
        **{f"{layer}.self_attn.{name}_proj.weight": _matrix(hidden, hidden, {}) for name in "qkvo"},
        **{f"{layer}.mlp.{name}_proj.weight": _matrix(hidden, hidden, {}) for name in ("gate", "up", "down")},
    }
    _save(folder / "model.safetensors", tensors)
    return folder


Tensor = tuple[tuple[int, ...], bytes]


def _read(follows: Mapping[int, int], direction: Mapping[int, int]) -> dict[tuple[int, int], float]:
    return {(next_id, direction[id]): 10.0 for id, next_id in follows.items()}


def _matrix(rows: int, columns: int, values: Mapping[tuple[int, int], float]) -> Tensor:
    numbers = [0.0] * (rows * columns)
    for (row, column), value in values.items():
        numbers[row * columns + column] = value
    return (rows, columns), struct.pack(f"<{len(numbers)}f", *numbers)


def _ones(size: int) -> Tensor:
    return (size,), struct.pack(f"<{size}f", *([1.0] * size))


def _save(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """The format of https://github.com/huggingface/safetensors#format."""
    header, data = {}, b""
    for name, (shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
