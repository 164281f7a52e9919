"""DPO's loss (arXiv:2305.18290, equation 7) over the pairs of a pass: rows in twos, the better answer first."""

from typing import Any

import torch
from tensordict import TensorDict
from torch.nn.functional import logsigmoid
from verl.utils.metric import AggregationType, Metric

REFERENCE = "reference_log_probs"
"""(rows,): of each answer by the base, nats."""
TOGETHER = 2
"""Rows of a pair, which verl's `force_group_size` keeps in one pass."""


def answer_log_probs(log_probs: torch.Tensor, loss_mask: torch.Tensor) -> torch.Tensor:
    """(rows,): of each answer, nats. Both nested, (rows, tokens): a token's log-prob stands at the token before it, its
    mask at itself."""
    learned = torch.roll(loss_mask.values(), -1)  # a row begins with its prompt, whose mask is 0
    kept = log_probs.values() * learned
    return torch.stack([row.sum() for row in kept.split(loss_mask.offsets().diff().tolist())])


def dpo_loss(
    model_output: dict[str, torch.Tensor], data: TensorDict, beta: float, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The part of a pass in the mean over the `global_batch_size` pairs of all ranks; and so its metrics.

    An answer's implicit reward is beta times its log-prob above the base's (equation 5, less what the prompt alone
    decides); the margin is how far that of the better one is above the other's.
    """
    found = answer_log_probs(model_output["log_probs"], data["loss_mask"])
    rewards = beta * (found - data[REFERENCE])
    margin = rewards[0::TOGETHER] - rewards[1::TOGETHER]
    share = data["dp_size"] / data["global_batch_size"]
    means = {
        "train/pair_accuracy": (margin > 0).float(),
        "train/pair_margin": margin,
        "train/chosen_logprob": found[0::TOGETHER],
        "train/rejected_logprob": found[1::TOGETHER],
    }
    metrics = {name: Metric(AggregationType.SUM, value.detach().sum() * share) for name, value in means.items()}
    return -logsigmoid(margin).sum() * share, metrics
