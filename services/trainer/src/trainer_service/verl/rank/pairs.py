"""Losses over the pairs of a pass, rows in twos, the better answer first: DPO's (arXiv:2305.18290, equation 7), and a
reward model's."""

from typing import Any

import torch
from tensordict import TensorDict
from torch.nn.functional import logsigmoid
from verl.utils.metric import AggregationType, Metric

REFERENCE = "reference_log_probs"
"""(rows,): of each answer by the base, nats."""
TOGETHER = 2
"""Rows of a pair, which verl's `force_group_size` keeps in one pass."""
CENTERING = 0.01
"""Weight of what keeps scores around 0, as TRL recommends it (center_rewards_coefficient)."""


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


def conversation_scores(values: torch.Tensor, tokens: torch.Tensor, pad: int) -> torch.Tensor:
    """(rows,): of each conversation, the value at its last token that is not the one for padding, where transformers'
    sequence classifiers take it. Both nested, (rows, tokens)."""
    lengths = tokens.offsets().diff().tolist()
    ends = []
    for row, of_row in zip(tokens.values().split(lengths), values.values().split(lengths), strict=True):
        ends.append(of_row[int((row != pad).nonzero()[-1])])
    return torch.stack(ends)


def reward_model_loss(
    model_output: dict[str, torch.Tensor], data: TensorDict, pad: int, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The part of a pass in the mean over the `global_batch_size` pairs of all ranks; and so its metrics.

    Of a pair, -log sigmoid(chosen - rejected), by Bradley and Terry's model (arXiv:2203.02155, equation 1), and
    CENTERING (chosen + rejected)^2 (arXiv:2312.09244, section 2): differences alone leave open where scores lie.
    """
    found = conversation_scores(model_output["values"], data["input_ids"], pad)
    chosen, rejected = found[0::TOGETHER], found[1::TOGETHER]
    share = data["dp_size"] / data["global_batch_size"]
    means = {
        "train/pair_accuracy": (chosen > rejected).float(),
        "train/pair_margin": chosen - rejected,
        "train/chosen_score": chosen,
        "train/rejected_score": rejected,
    }
    metrics = {name: Metric(AggregationType.SUM, value.detach().sum() * share) for name, value in means.items()}
    losses = -logsigmoid(chosen - rejected) + CENTERING * (chosen + rejected) ** 2
    return losses.sum() * share, metrics
