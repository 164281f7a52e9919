"""Batches as verl has them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def nested(rows: Sequence["torch.Tensor"]) -> "torch.Tensor":
    """(rows, tokens), each row of its own length."""
    import torch

    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)
