"""Completions of one prompt go through the policy as one row: the prompt once, then the completions, of which none sees
another. The same log-probs and gradients as of a row for each, from about half of the tokens where a group has eight.

A completion's part of the row begins with the prompt's last token, whose output is its first token, and goes to its
last but one. As PrefixGrouper (arXiv:2506.05433) does with two calls of attention a layer, here it is one with a mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

WIDTH = "ratchet_shared_width"
"""Of a batch whose prompts are shared: that of the model's hidden states."""
ROWS = "ratchet_shared_rows"
"""Of a pass: how many sequences each of its rows has, in order."""

_MODELS = {"llama", "qwen2", "qwen3"}
"""Those whose layers see what the mask shows them, and nothing else."""
_NO_PART = -1
_PREFIX = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """The rows of a pass, (rows, tokens), and where the output of each token of a completion is found and goes to."""

    input_ids: torch.Tensor
    labels: torch.Tensor
    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    """(rows, 1, tokens, tokens); true where a token sees another."""
    taken: torch.Tensor
    """(completion tokens,): places in the rows, flat."""
    given: torch.Tensor
    """(completion tokens,): places in the sequences of the pass, flat."""

    @classmethod
    def of(cls, input_ids: torch.Tensor, prompts: torch.Tensor, sizes: Sequence[int]) -> "Shared":
        """Of nested sequences, (sequences, tokens), and their prompts; `sizes`: sequences of each row."""
        sequences, offsets = input_ids.unbind(), input_ids.offsets().tolist()
        lengths = prompts.offsets().diff().tolist()
        made: list[list[torch.Tensor]] = []
        first = 0
        for size in sizes:
            prefix = lengths[first] - 1
            row = [sequences[first][:prefix]]
            wanted = [row[0]]
            at = [torch.arange(prefix)]
            part = [torch.full((prefix,), _PREFIX)]
            place = [torch.full((prefix,), _NO_PART)]
            for number, index in enumerate(range(first, first + size), start=_PREFIX + 1):
                own = sequences[index][prefix:]
                count = len(own) - 1
                row.append(own[:-1])
                wanted.append(own[1:])
                at.append(torch.arange(prefix, prefix + count))
                part.append(torch.full((count,), number))
                place.append(torch.arange(offsets[index] + prefix, offsets[index] + prefix + count))
            made.append([torch.cat(pieces) for pieces in (row, wanted, at, part, place)])
            first += size
        device = input_ids.device
        ids, labels, positions, parts, places = zip(*made, strict=True)
        part_of, place_of = _padded(parts, _NO_PART), _padded(places, _NO_PART).flatten()
        seen = (part_of[:, :, None] == part_of[:, None, :]) | (part_of[:, None, :] == _PREFIX)
        taken = (place_of != _NO_PART).nonzero().squeeze(1)
        return cls(
            _padded(ids, 0),
            _padded(labels, 0),
            _padded(positions, 0).to(device),
            seen.tril()[:, None].to(device),
            taken.to(device),
            place_of[taken].to(device),
        )

    def back(self, outputs: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """What the model made of the rows, (rows, tokens), as nested sequences: 0 where no completion is."""
        values = outputs.new_zeros(int(offsets[-1])).index_put((self.given,), outputs.flatten()[self.taken])
        return torch.nested.nested_tensor_from_jagged(values, offsets)


def _padded(rows: Sequence[torch.Tensor], value: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def apply() -> None:
    """verl has prefix sharing for its old trainer only (trainer/ppo/prefix_grouper_utils.py), not for its engines."""
    engine: Any = FSDPEngineWithLMHead
    run, to_inputs, to_outputs = (
        engine.forward_backward_batch,
        engine.prepare_model_inputs,
        engine.prepare_model_outputs,
    )

    def forward_backward_batch(self: Any, data: TensorDict, *args: Any, **options: Any) -> Any:
        if type(self) is FSDPEngineWithLMHead and "prompts" in data and _can_share(self.model_config.hf_config):
            tu.assign_non_tensor(data, **{WIDTH: self.model_config.hf_config.hidden_size})
        return run(self, data, *args, **options)

    def prepare_model_inputs(self: Any, micro_batch: TensorDict) -> Any:
        sizes = tu.get_non_tensor_data(micro_batch, ROWS, default=())
        if not any(size > 1 for size in sizes):
            return to_inputs(self, micro_batch)
        shared = Shared.of(micro_batch["input_ids"], micro_batch["prompts"], sizes)
        inputs = {
            "input_ids": shared.input_ids,
            "attention_mask": shared.attention_mask,
            "position_ids": shared.position_ids,
            "shift_labels": shared.labels,
            "temperature": micro_batch["temperature"],
            "return_dict": True,
        }
        return inputs, {"shared": shared}

    def prepare_model_outputs(
        self: Any, output: Any, output_args: Any, micro_batch: TensorDict, *rest: Any, **named: Any
    ) -> Any:
        shared = output_args.get("shared")
        if shared is None:
            return to_outputs(self, output, output_args, micro_batch, *rest, **named)
        offsets = micro_batch["input_ids"].offsets()
        made = {"log_probs": shared.back(output.log_probs, offsets)}
        if tu.get_non_tensor_data(micro_batch, "calculate_entropy", default=False):
            made["entropy"] = shared.back(output.entropy, offsets)
        return made

    engine.forward_backward_batch = forward_backward_batch
    engine.prepare_model_inputs = prepare_model_inputs
    engine.prepare_model_outputs = prepare_model_outputs


def _can_share(config: Any) -> bool:
    return config.model_type in _MODELS and not getattr(config, "use_sliding_window", False)
