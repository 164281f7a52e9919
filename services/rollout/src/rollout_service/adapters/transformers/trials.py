"""Trials of a model before it is served: does `generate` draw from the model's own distributions, and in what batches?

An encoder looks at what comes after a token: a text has other probabilities than it was drawn with. transformers' RWKV
mixes the rows of a batch (5.19). Neither raises an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from rollout_service.adapters.transformers.batches import padded

_SAME = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""Relative difference of two sums in another order."""
_DRAWN = 3
"""Tokens of a trial."""


@dataclass(frozen=True, slots=True)
class Batching:
    """Prompts that are completed together as each is alone."""

    of_one_length: bool
    of_all_lengths: bool
    """With padding before the shorter ones. Recurrent models read it."""

    def takes(self, lengths: Sequence[int]) -> bool:
        return len(lengths) == 1 or self.of_all_lengths or (self.of_one_length and len(set(lengths)) == 1)


def tried(model: Any) -> Batching:
    """Raises ValueError for a model that `generate` does not draw from."""
    last = int(model.config.get_text_config().vocab_size) - 1
    prompts = [[min(last, start + place) for place in range(size)] for start, size in ((3, 7), (20, 7), (40, 3))]
    alone = [_drawn(model, [prompt]) for prompt in prompts]
    errors = [
        error
        for prompt, (ids, scores) in zip(prompts, alone, strict=True)
        for error in _errors(model, prompt, ids, scores)
    ]
    if not median(errors) <= 1:  # of most: experts that are nearly equal make a single one large
        raise ValueError(
            f"what transformers' generate draws from are not the probabilities of {type(model).__name__}: the model"
            " reads what comes after a token (is_decoder in its config?), or transformers keeps its state wrongly"
        )
    first, second, short = (scores for _, scores in alone)
    of_one_length = _is_same(model, prompts[:2], (first, second))
    return Batching(of_one_length, of_one_length and _is_same(model, prompts[1:], (second, short)))


def _drawn(model: Any, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Prompts with the likeliest tokens after them, and the logits that these were taken from."""
    ids, mask = padded(prompts, model.device)
    config = GenerationConfig(max_new_tokens=_DRAWN, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    made = model.generate(ids, attention_mask=mask, generation_config=config)
    return made.sequences, torch.stack(made.logits, dim=1).float()


def _errors(model: Any, prompt: Sequence[int], ids: Tensor, scores: Tensor) -> Iterator[float]:
    """For each token, how many times too large the difference to a pass over the whole text is."""
    with torch.no_grad():
        whole = model(ids).logits[0, len(prompt) - 1 : -1].float()
    for own, drawn in zip(whole, scores[0], strict=True):
        yield _difference(model, own, drawn)


def _is_same(model: Any, prompts: Sequence[Sequence[int]], alone: Sequence[Tensor]) -> bool:
    _, together = _drawn(model, prompts)
    return all(_difference(model, own[0], one) <= 1 for own, one in zip(alone, together, strict=True))


def _difference(model: Any, own: Tensor, other: Tensor) -> float:
    return float((own - other).abs().max() / (_SAME[model.dtype] * own.abs().max()))
