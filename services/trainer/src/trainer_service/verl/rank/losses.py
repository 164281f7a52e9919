"""The loss of a policy that learns once from what it has just sampled: verl's, without a pass for old log-probs.

Where a batch is followed by one update, the policy before it is the policy itself: its log-probs are those of the
update's own forward, detached. PPO's ratio is then 1, with the gradient that it has in any case (arXiv:1707.06347,
equation 6), and nothing is clipped. The engine's log-probs are what these are held against: each token is compared.
"""

from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import agg_loss, kl_penalty
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding, response_to_nested

GAP_MEAN = "actor/probs_diff_mean"
GAP_MAX = "actor/probs_diff_max"
"""|p_trainer - p_engine| over the sampled tokens."""
KL = "actor/ppo_kl"
"""Nats a token, from the policy that sampled: the mean of log p_engine - log p_trainer."""
KL_FROM_BASE = "actor/kl_loss"
"""Nats a token, from the policy that the penalty is against."""
ENTROPY = "actor/entropy"
RATIO = "actor/ratio_mean"
"""Of tokens, how much likelier the policy finds them than the one before the update, or, where a batch is learned from
once, than the engine that sampled them. About 1 on average over what that one samples."""
IMPORTANCE = "actor/importance_mean"
"""Of tokens, by how much likelier the trainer finds them than the engine, once it is cut."""
IMPORTANCE_CLIPPED = "actor/importance_clipped"
"""The share of tokens whose weight is cut."""


def policy_loss(
    config: Any, model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """As verl's `ppo_loss`, whose place it takes; the same where `config` does not say that a batch is learned from
    once (verl's `bypass_mode`, which `verl/config.py` sets).

    `data`: `rollout_log_probs` in the place of `old_log_probs`, nested, (rows, response tokens).
    """
    correction = config.policy_loss.rollout_correction
    if not correction.get("bypass_mode", False):
        loss, of_verl = ppo_loss(config, model_output, data, dp_group)
        with torch.no_grad():
            own = no_padding_2_padding(model_output["log_probs"].detach(), data)
            before, mask = data["old_log_probs"].to_padded_tensor(0.0), data["response_mask"].to_padded_tensor(0)
            ratio = {RATIO: _mean((own - before).exp(), mask, data)}
        return loss, of_verl | ratio | _from_base(config, model_output, data)
    with torch.no_grad():
        own = no_padding_2_padding(model_output["log_probs"].detach(), data)
        engine = data["rollout_log_probs"].to_padded_tensor(0.0)
        mask = data["response_mask"].to_padded_tensor(0)
        metrics = _compared(own, engine, mask, data)
        once = data.copy()
        once["old_log_probs"] = response_to_nested(own, data["response_mask"])
        if (level := correction.get("rollout_is")) is not None:
            threshold = correction.get("rollout_is_threshold")
            weights, _ = compute_rollout_correction_weights(own - engine, mask, level, threshold)
            metrics[IMPORTANCE] = _mean(weights, mask, data)
            metrics[IMPORTANCE_CLIPPED] = _mean((weights >= threshold).float(), mask, data)
            once["rollout_is_weights"] = response_to_nested(weights, data["response_mask"])
        entropy = model_output.get("entropy")
        if entropy is not None:
            metrics[ENTROPY] = _mean(no_padding_2_padding(entropy.detach(), data), mask, data)
    if config.entropy_coeff == 0:  # else its gradient would be computed, and multiplied by 0
        model_output = {name: value for name, value in model_output.items() if name != "entropy"}
    loss, of_verl = ppo_loss(config, model_output, once, dp_group)
    return loss, of_verl | metrics | _from_base(config, model_output, data)


def _compared(own: torch.Tensor, engine: torch.Tensor, mask: torch.Tensor, data: TensorDict) -> dict[str, Metric]:
    gap = (own.exp() - engine.exp()).abs() * mask
    return {
        GAP_MEAN: _mean(gap, mask, data),
        GAP_MAX: Metric(AggregationType.MAX, gap.max()),
        KL: _mean(engine - own, mask, data),
        RATIO: _mean((own - engine).exp(), mask, data),
    }


def _from_base(config: Any, model_output: dict[str, torch.Tensor], data: TensorDict) -> dict[str, Metric]:
    """The KL penalty in nats a token, which verl's own metric is not where the loss is averaged otherwise."""
    if not config.use_kl_loss:
        return {}
    with torch.no_grad():
        own = no_padding_2_padding(model_output["log_probs"].detach(), data)
        base = data["ref_log_prob"].to_padded_tensor(0.0)
        mask = data["response_mask"].to_padded_tensor(0)
        return {KL_FROM_BASE: _mean(kl_penalty(own, base, config.kl_loss_type), mask, data)}


def _mean(values: torch.Tensor, mask: torch.Tensor, data: TensorDict) -> Metric:
    """Of a pass, what it adds to the mean over all tokens of all ranks."""
    tokens, ranks = data["batch_num_tokens"], data["dp_size"]
    return Metric(AggregationType.SUM, agg_loss(values, mask, "token-mean", ranks, tokens))
