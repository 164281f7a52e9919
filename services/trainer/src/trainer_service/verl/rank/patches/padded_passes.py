"""The passes of a batch where each row is padded to the longest of its pass."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import verl.workers.engine.utils
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_name

from trainer_service.verl.passes import SHARED_ROWS, SHARED_WIDTH, Tree, packed, parted, passes, trees

HELD = {"verl.utils.seqlen_balancing:rearrange_micro_batches": "2e384e734df9f191"}

Made = tuple[list[TensorDict], list[list[int]]]
"""Passes, and the rows of the batch that each has."""


def apply() -> None:
    """verl counts a pass's tokens without padding, and mixes long sequences with short ones (utils/seqlen_balancing.py,
    rearrange_micro_batches). Padded to the longest, they take several times the memory that was meant."""
    unpadded = verl.workers.engine.utils.rearrange_micro_batches

    def rearrange_micro_batches(batch: TensorDict, max_token_len: int, dp_group: Any = None, **options: Any) -> Made:
        if tu.get_non_tensor_data(batch, "use_remove_padding", default=True):
            return unpadded(batch, max_token_len, dp_group=dp_group, **options)
        if width := tu.get_non_tensor_data(batch, SHARED_WIDTH, default=0):
            return _of_trees(batch, max_token_len, dp_group, width)
        return _of_rows(batch, max_token_len, dp_group, options.get("force_group_size", 1))

    verl.workers.engine.utils.rearrange_micro_batches = rearrange_micro_batches


def _of_rows(batch: TensorDict, tokens: int, dp_group: Any, together: int) -> Made:
    """`together`: rows that no pass parts."""
    rows = [list(range(first, first + together)) for first in range(0, len(batch), together)]
    lengths = batch["input_ids"].offsets().diff().tolist()
    sizes = [max(lengths[index] for index in row) * len(row) for row in rows]
    groups = passes(sizes, tokens)
    if (most := _most(len(groups), dp_group)) > len(groups):
        groups = passes(sizes, tokens, at_least=most)
    indices = [[index for number in group for index in rows[number]] for group in groups]
    return [rows_at(batch, places) for places in indices], indices


def _of_trees(batch: TensorDict, tokens: int, dp_group: Any, width: int) -> Made:
    """Each pass says which of its sequences share a tree, and which trees a row."""
    sequences = _lists(batch["input_ids"])
    prompts = batch["prompts"].offsets().diff().tolist()
    keys = [tuple(one[:size]) for one, size in zip(sequences, prompts, strict=True)]
    prefixes = [size - 1 for size in prompts]
    completions = [one[size:] for one, size in zip(sequences, prompts, strict=True)]

    def length(tree: Sequence[int]) -> int:
        grown = Tree()
        for index in tree:
            grown.add(completions[index])
        return prefixes[tree[0]] + len(grown)

    grown = trees(keys, prefixes, completions, tokens, width)
    groups = packed([length(tree) for tree in grown], tokens)
    if (most := _most(len(groups), dp_group)) > len(groups):
        grown = parted(grown, most)
        groups = packed([length(tree) for tree in grown], tokens, at_least=most)
    made, indices = [], []
    for group in groups:
        indices.append([index for row in group for number in row for index in grown[number]])
        made.append(rows_at(batch, indices[-1]))
        sizes = tuple(tuple(len(grown[number]) for number in row) for row in group)
        tu.assign_non_tensor(made[-1], **{SHARED_ROWS: sizes})
    return made, indices


def _most(own: int, dp_group: Any) -> int:
    """Those of the rank with the most: each takes part in every pass of the others."""
    if dp_group is None:
        return own
    most = torch.tensor([own], device=get_device_name())
    torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX, group=dp_group)
    return int(most)


def _lists(nested: torch.Tensor) -> list[list[int]]:
    values, offsets = nested.values().tolist(), nested.offsets().tolist()
    return [values[start:end] for start, end in pairwise(offsets)]


def rows_at(batch: TensorDict, places: Sequence[int]) -> TensorDict:
    """The rows of a batch at `places`: as verl's, which takes each row of a nested tensor by itself
    (utils/tensordict_utils.py:458)."""
    rows = torch.tensor(places)
    nested = {
        name: _taken(value, rows)
        for name, value in batch.items()
        if isinstance(value, torch.Tensor) and value.is_nested and value.dim() == 2
    }
    others: TensorDict = tu.index_select_tensor_dict(batch.exclude(*nested), rows)
    return others.update(nested)


def _taken(nested: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    offsets = nested.offsets()
    rows = rows.to(offsets.device)
    lengths = offsets.diff()[rows]
    ends = lengths.cumsum(0)
    starts = (offsets[rows] - (ends - lengths)).repeat_interleave(lengths)
    places = starts + torch.arange(len(starts), device=starts.device)
    made = torch.cat([ends.new_zeros(1), ends])
    # Without the longest, its padded form would be as wide as all rows together.
    shortest, longest = int(lengths.min()), int(lengths.max())
    return torch.nested.nested_tensor_from_jagged(nested.values()[places], made, None, 1, shortest, longest)
