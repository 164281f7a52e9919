"""verl's settings for each algorithm: one row each, beside its row in `domain/spec/algorithms.py`.

An algorithm that takes examples has none: verl's SFT trainer has no estimator to choose.
"""

from dataclasses import dataclass

Override = str
"""A setting in Hydra's form, "key=value"."""
_ACTOR = "actor_rollout_ref.actor"
BEFORE_LENGTH = "before_length"
"""The reward of a sample before it is punished for its length (driver/transfer.py)."""


@dataclass(frozen=True, slots=True)
class VerlAlgorithm:
    estimator: str
    """Of advantages, by verl's name (verl/trainer/ppo/core_algos.py, AdvantageEstimator)."""
    overrides: tuple[Override, ...] = ()


REPLACES_GROUPS = ("algorithm.filter_groups.enable=True", f"algorithm.filter_groups.metric={BEFORE_LENGTH}")
"""Settings of the algorithms that do."""

# Dual clip's constant, as in the authors' released script (arXiv:2503.14476); verl's default is 3.
_DAPO = (f"{_ACTOR}.clip_ratio_c=10.0",)

VERL_ALGORITHMS = {
    "grpo": VerlAlgorithm("grpo"),
    "ppo": VerlAlgorithm("gae"),
    "rloo": VerlAlgorithm("rloo"),
    "dapo": VerlAlgorithm("grpo", _DAPO),
    # The rewards of an episode's answers, by GAE over its tokens: replies are passed over (core_algos.py).
    "dapo_steps": VerlAlgorithm("gae", _DAPO),
    "reinforce_plus_plus": VerlAlgorithm("reinforce_plus_plus"),
    "remax": VerlAlgorithm("remax"),
    "dr_grpo": VerlAlgorithm(
        "grpo",
        (
            "algorithm.norm_adv_by_std_in_grpo=False",
            # The sum over tokens by a constant, as the authors divide by their budget of tokens (arXiv:2503.20783,
            # listing 1), in place of GRPO's by each completion's own length.
            f"{_ACTOR}.loss_agg_mode=seq-mean-token-sum-norm",
            f"{_ACTOR}.loss_scale_factor=${{data.max_response_length}}",
        ),
    ),
    "gspo": VerlAlgorithm(
        "grpo",
        (
            f"{_ACTOR}.policy_loss.loss_mode=gspo",
            # Each sequence counts the same (arXiv:2507.18071, equation 5).
            f"{_ACTOR}.loss_agg_mode=seq-mean-token-mean",
        ),
    ),
    "cispo": VerlAlgorithm("grpo", (f"{_ACTOR}.policy_loss.loss_mode=cispo",)),
}
