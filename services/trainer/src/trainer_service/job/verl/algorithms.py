"""verl's settings for each algorithm: one row each, beside its row in `domain/algorithms.py`.

An algorithm that takes examples has none: verl's SFT trainer has no estimator to choose.
"""

from dataclasses import dataclass

Override = str
"""A setting in Hydra's form, "key=value"."""


@dataclass(frozen=True, slots=True)
class VerlAlgorithm:
    estimator: str
    """Of advantages, by verl's name (verl/trainer/ppo/core_algos.py, AdvantageEstimator)."""
    overrides: tuple[Override, ...] = ()


VERL_ALGORITHMS = {
    "grpo": VerlAlgorithm("grpo"),
    "ppo": VerlAlgorithm("gae"),
    "rloo": VerlAlgorithm("rloo"),
    "dapo": VerlAlgorithm(
        "grpo",
        (
            # Dual clip's constant, as in the authors' released script (arXiv:2503.14476); verl's default is 3.
            "actor_rollout_ref.actor.clip_ratio_c=10.0",
            # Dynamic sampling (section 3.2): groups of one reward teach nothing and are replaced.
            "algorithm.filter_groups.enable=True",
            "algorithm.filter_groups.metric=reward",
        ),
    ),
    "reinforce_plus_plus": VerlAlgorithm("reinforce_plus_plus"),
}
