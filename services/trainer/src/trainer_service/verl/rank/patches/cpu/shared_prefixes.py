"""Completions of one prompt go through the policy together: the prompt once, then the tree of the completions
(`passes.Tree`), in which each token sees those that it comes after. A row has one such tree or several, which do not
see each other, in the place of padding. The same log-probs and gradients as of a row for each completion, from a third
to a half of the tokens where a group has eight.

A completion begins with the prompt's last token, whose output is its first token, and goes to its last but one.
PrefixGrouper (arXiv:2506.05433) shares prompts with two calls of attention a layer; here it is one with a mask, which
shares what completions begin with, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from trainer_service.verl.passes import SHARED_ROWS, SHARED_WIDTH, Tree
from trainer_service.verl.rank.head import UNUSED

HELD = {
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine.forward_backward_batch": "be92c8d155f0c179",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngineWithLMHead.prepare_model_inputs": "e7a30a3b61b58c8b",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngineWithLMHead.prepare_model_outputs": "5239f536e8f617e3",
}

_MODELS = {"llama", "qwen2", "qwen3"}
"""Those whose layers see what the mask shows them, and nothing else."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The rows of a pass, (rows, tokens), and where the output of each token of a completion is found and goes to."""

    input_ids: torch.Tensor
    labels: torch.Tensor
    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    """(rows, 1, tokens, tokens); true where a token sees another."""
    taken: torch.Tensor
    """(completion tokens,): places in the rows, flat; some more than once."""
    given: torch.Tensor
    """(completion tokens,): places in the sequences of the pass, flat."""

    @classmethod
    def of(cls, input_ids: torch.Tensor, prompts: torch.Tensor, sizes: Sequence[Sequence[int]]) -> "Shared":
        """Of nested sequences, (sequences, tokens), and their prompts; `sizes`: sequences of each tree of each row."""
        sequences, offsets = input_ids.unbind(), input_ids.offsets().tolist()
        prefixes = (prompts.offsets().diff() - 1).tolist()
        rows: list[list[_Planted]] = []
        taken, given = [], []
        first = 0
        for of_row in sizes:
            rows.append([])
            start = 0
            for size in of_row:
                tree = _Planted(sequences[first][: prefixes[first]], start)
                for index in range(first, first + size):
                    own = sequences[index][prefixes[index] :]
                    taken.append((len(rows) - 1, tree.add(own)))
                    here = offsets[index] + prefixes[index]
                    given.append(torch.arange(here, here + len(own) - 1))
                rows[-1].append(tree)
                first += size
                start = tree.end
        ids, labels, positions = (
            _padded([torch.cat([piece for tree in row for piece in tree.pieces[kind]]) for row in rows], padding)
            for kind, padding in enumerate((0, UNUSED, 0))
        )
        width, device = ids.shape[1], input_ids.device
        seen = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
        for row, sees in zip(rows, seen, strict=True):
            for tree in row:
                tree.show(sees)
        return cls(
            ids,
            labels,
            positions.to(device),
            seen[:, None].to(device),
            torch.cat([places + number * width for number, places in taken]).to(device),
            torch.cat(given).to(device),
        )

    def back(self, outputs: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """What the model made of the rows, (rows, tokens), as nested sequences: 0 where no completion is."""
        # Its backward adds in one order, on CPU; that of outputs[taken] does not.
        found = outputs.flatten().index_select(0, self.taken)
        values = outputs.new_zeros(int(offsets[-1])).index_put((self.given,), found)
        return torch.nested.nested_tensor_from_jagged(values, offsets)


class _Planted:
    """A prompt and the tree of its completions, in a row, while these are made."""

    def __init__(self, prefix: torch.Tensor, start: int) -> None:
        """`prefix`: the tokens of the prompt but its last. `start`: its place in the row."""
        size = len(prefix)
        self.pieces = ([prefix], [torch.full_like(prefix, UNUSED)], [torch.arange(size)])
        """Of inputs, of labels and of positions."""
        self._start = start
        self._root = start + size
        """Where the prompt ends and the tree begins."""
        self._tree = Tree()
        self._branches: list[tuple[int, torch.Tensor]] = []
        """Where each begins, and the places of all that its first token sees before it, but the prompt."""

    @property
    def end(self) -> int:
        return self._root + len(self._tree)

    def add(self, own: torch.Tensor) -> torch.Tensor:
        """The places in the row of a completion's tokens. `own`: the prompt's last token, then the completion."""
        before = self.end
        found, shared = self._tree.add(own[1:].tolist())
        places = torch.tensor(found, dtype=torch.long) + self._root
        if shared < len(found):
            inputs, labels, positions = self.pieces
            inputs.append(own[shared:-1])
            labels.append(own[shared + 1 :])
            prompt = self._root - self._start
            positions.append(torch.arange(prompt + shared, prompt + len(found)))
            self._branches.append((before, places[:shared]))
        return places

    def show(self, sees: torch.Tensor) -> None:
        """Fills in which tokens of its own each of them sees. `sees`: of the row, (tokens, tokens)."""
        prompt = slice(self._start, self._root)
        sees[prompt, prompt].fill_(True).tril_()
        starts = [start for start, _ in self._branches]
        ends = [*starts[1:], self.end]
        for (start, before), end in zip(self._branches, ends, strict=True):
            sees[start:end, prompt] = True
            sees[start:end, before] = True
            sees[start:end, start:end].fill_(True).tril_()


def _padded(rows: Sequence[torch.Tensor], padding: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=padding)


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
            tu.assign_non_tensor(data, **{SHARED_WIDTH: self.model_config.hf_config.hidden_size})
        return run(self, data, *args, **options)

    def prepare_model_inputs(self: Any, micro_batch: TensorDict) -> Any:
        sizes = tu.get_non_tensor_data(micro_batch, SHARED_ROWS, default=())
        if not sizes:
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
