"""Advantages of GDPO and by turn, and ReMax's baselines; and the advantages of samples, for people. The others are
verl's own estimators, which `verl/algorithms.py` names.

GDPO's is registered with verl when this is imported.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import register_adv_est
from verl.utils.torch_functional import masked_whiten

from trainer_service.verl.config import GDPO


@register_adv_est(GDPO)
def whitened(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **unused: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards that are normalised in their groups (`ratchet_rewards.combine`), normalised once more over the tokens of
    the batch: the last step of GDPO (arXiv:2601.05242). All shapes are (sequences, tokens).

    verl's own `gdpo` wants each component in the batch, which its trainer V1 does not hand on
    (trainer/ppo/v1/trainer_base.py:1745).
    """
    scores = token_level_rewards.sum(dim=-1, keepdim=True) * response_mask
    advantages = masked_whiten(scores, response_mask) * response_mask
    return advantages, advantages


def with_baselines(compute: Callable[..., DataProto], baseline_of: Callable[[str], float]) -> Callable[..., DataProto]:
    """verl's `compute_advantage_for_multi_trajectories`, with what its estimator `remax` needs and its trainer V1 does
    not hand on (trainer/ppo/v1/trainer_base.py:1740): the reward of each prompt's greedy completion.

    `baseline_of`: by the uid of a prompt, which the keys of its samples begin with: `<uid>_<session>_<index>`.
    """

    def computed(data: DataProto, batch_keys: Sequence[str], **options: Any) -> DataProto:
        uids = (key.rsplit("_", 2)[0] for key in batch_keys)
        data.batch["reward_baselines"] = torch.tensor([baseline_of(uid) for uid in uids])
        return compute(data, batch_keys, **options)

    return computed


def by_turn(
    compute: Callable[..., DataProto], credit_of: Callable[[str], Sequence[tuple[range, float]]]
) -> Callable[..., DataProto]:
    """verl's `compute_advantage_for_multi_trajectories`, with the advantages of answers (`job/samples/returns.py`) in
    place of those of episodes. `credit_of`: by the key of a sample."""

    def computed(data: DataProto, batch_keys: Sequence[str], **options: Any) -> DataProto:
        data = compute(data, batch_keys, **options)
        found = torch.zeros_like(data.batch["advantages"])
        for row, key in zip(found, batch_keys, strict=True):
            for places, advantage in credit_of(key):
                row[places.start : places.stop] = advantage
        data.batch["advantages"] = data.batch["returns"] = found * data.batch["response_mask"]
        return data

    return computed


def noted(compute: Callable[..., DataProto], note: Callable[[dict[str, float]], None]) -> Callable[..., DataProto]:
    """verl's `compute_advantage_for_multi_trajectories`, which also tells `note` the mean advantage over the tokens of
    each sample, by its key."""

    def computed(data: DataProto, batch_keys: Sequence[str], **options: Any) -> DataProto:
        data = compute(data, batch_keys, **options)
        mask = data.batch["response_mask"]
        means = (data.batch["advantages"] * mask).sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)
        note(dict(zip(batch_keys, means.tolist(), strict=True)))
        return data

    return computed
