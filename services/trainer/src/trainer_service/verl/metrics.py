"""verl's metrics under Ratchet's names. Pure."""

import math
from collections.abc import Mapping, Sequence

TOKENS = "training/tokens"
SCORE = "validation/score"
VALIDATION_TIME = "timing_s/testing"
CLIPPED = "response_length/clip_ratio"

SYNC = ("gather", "hash", "send", "prepare", "pause")
"""Parts of a transfer of weights: `WeightSync.seconds`."""
# Ratchet's name -> verl's names, the first that is there wins.
RL_NAMES: Mapping[str, tuple[str, ...]] = {
    "reward_mean": ("critic/score/mean",),
    "reward_min": ("critic/score/min",),
    "reward_max": ("critic/score/max",),
    "advantage_mean": ("critic/advantages/mean",),
    "return_mean": ("critic/returns/mean",),
    # Against the base policy when the run has a KL penalty, else against the policy that sampled.
    "kl": ("actor/kl_loss", "actor/reward_kl_penalty", "actor/ppo_kl"),
    "entropy": ("actor/entropy",),
    "clip_fraction": ("actor/pg_clipfrac",),
    "grad_norm": ("actor/grad_norm",),
    "learning_rate": ("actor/lr",),
    "loss": ("actor/pg_loss",),
    "value_loss": ("critic/vf_loss",),
    "value_clip_fraction": ("critic/vf_clipfrac",),
    "critic_grad_norm": ("critic/grad_norm",),
    "value_explained_variance": ("critic/vf_explained_var",),
    # Mean and largest |p_train - p_rollout| over the sampled tokens.
    "logprob_diff_mean": ("actor/probs_diff_mean", "training/rollout_probs_diff_mean"),
    "logprob_diff_max": ("actor/probs_diff_max", "training/rollout_probs_diff_max"),
    # Steps by which samples are older than those that learn from them, and how tokens are weighed for the difference.
    "staleness_mean": ("training/off_policy/trajectory_staleness_worst/mean",),
    "staleness_max": ("training/off_policy/trajectory_staleness_worst/max",),
    # How much likelier tokens are by the policy than by the one before the update, or the engine that sampled them.
    "ratio_mean": ("actor/ratio_mean",),
    "importance_mean": ("actor/importance_mean", "rollout_corr/rollout_is_mean"),
    "importance_clipped": ("actor/importance_clipped", "rollout_corr/rollout_is_ratio_fraction_high"),
    "response_tokens_mean": ("response_length/mean",),
    "response_tokens_max": ("response_length/max",),
    "response_clip_ratio": (CLIPPED,),
    "prompt_tokens_mean": ("prompt_length/mean",),
    "groups_filtered": ("training/filter_groups/evicted_samples",),
    "platform_faults": ("training/platform_faults",),
    "validation_score": (SCORE,),
    "validation_score_low": (f"{SCORE}_low",),
    "validation_score_high": (f"{SCORE}_high",),
    "validation_problems": ("validation/problems",),
    # Of the base, before the first step.
    "base_score": ("validation/base_score",),
    "base_score_low": ("validation/base_score_low",),
    "base_score_high": ("validation/base_score_high",),
    "sync_bytes": ("sync/bytes",),
    "sync_probe_error": ("sync/probe_error",),
    # Of prompts and responses that the step trained on.
    "tokens": (TOKENS,),
    "tokens_per_second": ("perf/throughput",),
    "time_step_s": ("timing_s/step",),
    "time_generate_s": ("timing_s/gen",),
    "time_old_logprob_s": ("timing_s/old_log_prob",),
    "time_reference_s": ("timing_s/ref",),
    "time_values_s": ("timing_s/values",),
    "time_advantage_s": ("timing_s/adv",),
    "time_update_critic_s": ("timing_s/update_critic",),
    "time_update_s": ("timing_s/update_actor",),
    # For completions of the next step, before new weights are sent.
    "time_wait_s": ("timing_s/wait",),
    # Of making this step's samples, what went on beside the step before.
    "time_overlapped_s": ("timing_s/overlapped",),
    "time_sync_s": ("timing_s/update_weights",),
    **{f"time_sync_{part}_s": (f"sync/{part}_s",) for part in SYNC},
    "time_checkpoint_s": ("timing_s/save_checkpoint",),
    "time_validate_s": (VALIDATION_TIME,),
}

SFT_NAMES: Mapping[str, tuple[str, ...]] = {
    "loss": ("train/loss",),
    "grad_norm": ("train/grad_norm",),
    "learning_rate": ("train/lr",),
    "tokens": ("train/global_tokens",),
    "validation_loss": ("val/loss",),
    "validation_score": (SCORE,),
    "time_step_s": ("timing_s/step",),
    "time_checkpoint_s": ("timing_s/save_checkpoint",),
}

_OF_VALIDATION = ("validation_score", "base_score")
DPO_NAMES: Mapping[str, tuple[str, ...]] = {
    **{ours: theirs for ours, theirs in SFT_NAMES.items() if ours != "validation_loss"},
    **{ours: theirs for ours, theirs in RL_NAMES.items() if ours.startswith(_OF_VALIDATION)},
    "validation_problems": RL_NAMES["validation_problems"],
    "sync_bytes": RL_NAMES["sync_bytes"],
    "sync_probe_error": RL_NAMES["sync_probe_error"],
    # Of pairs, means: log-probs are nats of a whole answer.
    "pair_accuracy": ("train/pair_accuracy",),
    "pair_margin": ("train/pair_margin",),
    "chosen_logprob": ("train/chosen_logprob",),
    "rejected_logprob": ("train/rejected_logprob",),
    "time_validate_s": (VALIDATION_TIME,),
}

REWARD_MODEL_NAMES: Mapping[str, tuple[str, ...]] = {
    **{ours: theirs for ours, theirs in SFT_NAMES.items() if not ours.startswith("validation")},
    **{ours: RL_NAMES[ours] for ours in ("validation_score", "validation_score_low", "validation_score_high")},
    # Of pairs, means.
    "pair_accuracy": ("train/pair_accuracy",),
    "pair_margin": ("train/pair_margin",),
    "chosen_score": ("train/chosen_score",),
    "rejected_score": ("train/rejected_score",),
    "validation_pair_margin": ("validation/pair_margin",),
    "time_validate_s": (VALIDATION_TIME,),
}

_LEARNED_BY = ("loss", "grad_norm", "value_loss", "critic_grad_norm")
NOT_FINITE = "not_finite"
"""How many of these are no finite number in a step; absent where all are."""
_OF_LOSS = "actor/plugin/"
"""verl puts its "actor/" before."""


def of_plugins(metrics: Mapping[str, object]) -> dict[str, float]:
    """What a loss of one's own has measured, plugin/<name>, as plugin_<name>. Only finite numbers."""
    own = {name: float(value) for name, value in metrics.items() if name.startswith(_OF_LOSS)}  # type: ignore[arg-type]
    return {f"plugin_{name.removeprefix(_OF_LOSS)}": value for name, value in own.items() if math.isfinite(value)}


def rename(metrics: Mapping[str, object], names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """The metrics that have a name of ours and a finite number; the others are verl's affair, but for the count of
    those that the model would have learned by."""
    renamed = {}
    for ours, theirs in names.items():
        value = next((metrics[name] for name in theirs if name in metrics), None)
        if value is None:
            continue
        number = float(value)  # type: ignore[arg-type]  # int, float, numpy or a 0-d tensor
        if math.isfinite(number):
            renamed[ours] = number
        elif ours in _LEARNED_BY:
            renamed[NOT_FINITE] = renamed.get(NOT_FINITE, 0.0) + 1
    return renamed


def memory(peaks: Sequence[int]) -> dict[str, float]:
    """Bytes at the peak of a step, of each rank and of the rank with the most."""
    of_ranks = {f"memory_bytes_rank_{rank}": float(peak) for rank, peak in enumerate(peaks)}
    return {"memory_bytes_max": float(max(peaks)), **of_ranks}
