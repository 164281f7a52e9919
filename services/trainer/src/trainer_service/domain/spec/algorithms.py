"""The algorithms of training: one row each. verl's settings for each stand in `verl/algorithms.py`.

Sources of the numbers: DAPO's clip range and token-mean loss, arXiv:2503.14476 (section 3.1); PPO's clip range,
arXiv:1707.06347 (section 6.1); GRPO, RLOO and REINFORCE++ without a KL term, as is usual with verifiable rewards
(arXiv:2503.20783, section 3; 2402.14740; 2501.03262). DAPO's punishment of length (equation 13) is half of the paper's,
whose rewards are 1 and -1 where ours are 1 and 0; its buffer is a fifth, as 4096 of 20480 (section 4.1). ReMax draws
one completion a prompt and a greedy one, arXiv:2310.10505 (algorithm 1): 128 a step, as the others. Dr. GRPO is GRPO
without two divisors, arXiv:2503.20783 (section 3). DPO's beta, arXiv:2305.18290 (appendix B), and its learning rate,
arXiv:2310.16944 (section 4.1). A reward model's learning rate and batch, arXiv:2203.02155 (appendix C.2). GSPO's clip
range and four updates a step, arXiv:2507.18071 (section 5.1). CISPO has no lower bound of the ratio, arXiv:2506.13585
(section 3.1), which has no number for the upper one. DAPO by steps is DAPO but for its baseline, a critic with PPO's
numbers. Learning rates: verl's examples for models of billions of parameters; for models of millions, measured on the
starter policy.
"""

from dataclasses import dataclass, replace
from typing import Any

from trainer_service.domain.spec.hyperparameters import ROWS, Hyperparameters, UsedBy


@dataclass(frozen=True, slots=True)
class Algorithm:
    name: str
    """The name in the proto, in lower case: "grpo" for ALGORITHM_GRPO."""
    own: Hyperparameters
    """Defaults that differ from those of the rows of hyperparameters, for a base of billions of parameters."""
    small: Hyperparameters
    """What a small base takes instead: its learning rates."""
    is_grouped: bool = False
    """Completions of a prompt are compared, be it that the rest of them is the baseline, or that groups of one reward
    are replaced: a group of one teaches nothing."""
    has_critic: bool = False
    takes_examples: bool = False
    """It learns from the problems' references: nothing is generated, graded or rewarded."""
    takes_pairs: bool = False
    """It learns from pairs of answers: only in validation is anything generated, graded or rewarded."""
    makes_reward_model: bool = False
    """What it trains gives a text a number and writes none: nothing is generated, graded or rewarded, in validation
    neither."""
    has_greedy: bool = False
    """The baseline is the reward of one more completion of each prompt, the greedy one."""
    has_own_loss: bool = False
    """It is what it is by its loss: no other takes its place."""
    has_steps: bool = False
    """Each answer of an episode is rewarded, by what the reward gains with it: shaping by a potential, which leaves
    the best policy what it is (Ng, Harada and Russell, ICML 1999, theorem 1)."""
    discounts: bool = False
    """Rewards count from each token to the end, by `gamma`; those of the others belong to a whole completion."""
    divides_by_deviation: bool = False
    """Of the rewards of a group."""
    compares_ends: bool = False
    """Compares the ends of a group's episodes, however many trajectories an episode has."""
    replaces_groups: bool = False
    """Groups of one reward, which teach nothing: dynamic sampling (arXiv:2503.14476, section 3.2)."""
    updates: int = 1
    """Gradient updates a step, where the batch allows it."""

    @property
    def is_online(self) -> bool:
        """It learns from its own completions."""
        return not (self.takes_examples or self.takes_pairs)

    @property
    def is_rewarded(self) -> bool:
        """Completions are made and judged, in training or in validation."""
        return not (self.takes_examples or self.makes_reward_model)

    @property
    def applicable(self) -> frozenset[str]:
        """The names of the hyperparameters that the algorithm uses."""
        holds = {
            UsedBy.ALL: True,
            UsedBy.RL: self.is_online,
            UsedBy.CRITIC: self.has_critic,
            UsedBy.POLICY: not self.makes_reward_model,
            UsedBy.DPO: self.takes_pairs and not self.makes_reward_model,
        }
        return frozenset(name for name, row in ROWS.items() if holds[row.used_by])

    @property
    def defaults(self) -> Hyperparameters:
        """For a base of billions of parameters. What is None here does not apply to the algorithm, or is computed from
        the rest (`defaults.complete`)."""
        common: dict[str, Any] = {name: ROWS[name].default for name in self.applicable}
        return self.own.over(Hyperparameters(**common))


_RL = Hyperparameters()
_SFT = Hyperparameters(learning_rate=1e-5, batch_size=32, warmup_steps=20)
_DPO = Hyperparameters(learning_rate=5e-7, batch_size=32, warmup_steps=10)
_REWARD_MODEL = Hyperparameters(learning_rate=9e-6, batch_size=64, warmup_steps=10)
_DAPO = Hyperparameters(clip_high=0.28, overlong_penalty=0.5)
_SMALL_RL = Hyperparameters(learning_rate=5e-5)

_ROWS = (
    Algorithm("sft", _SFT, Hyperparameters(learning_rate=1e-3), takes_examples=True),
    Algorithm("grpo", _RL, _SMALL_RL, is_grouped=True, divides_by_deviation=True, compares_ends=True),
    Algorithm(
        "ppo",
        Hyperparameters(group_size=1, batch_size=128),
        replace(_SMALL_RL, critic_learning_rate=1e-3),
        has_critic=True,
        discounts=True,
    ),
    Algorithm("rloo", _RL, _SMALL_RL, is_grouped=True),
    Algorithm(
        "dapo",
        _DAPO,
        _SMALL_RL,
        is_grouped=True,
        divides_by_deviation=True,
        compares_ends=True,
        replaces_groups=True,
    ),
    Algorithm("reinforce_plus_plus", Hyperparameters(group_size=4, batch_size=32), _SMALL_RL, discounts=True),
    Algorithm("remax", Hyperparameters(group_size=1, batch_size=64), _SMALL_RL, has_greedy=True),
    Algorithm("dr_grpo", _RL, _SMALL_RL, is_grouped=True, compares_ends=True),
    Algorithm(
        "gspo",
        Hyperparameters(clip_low=3e-4, clip_high=4e-4),
        _SMALL_RL,
        is_grouped=True,
        has_own_loss=True,
        divides_by_deviation=True,
        compares_ends=True,
        updates=4,
    ),
    Algorithm(
        "cispo",
        Hyperparameters(clip_low=1.0),
        _SMALL_RL,
        is_grouped=True,
        has_own_loss=True,
        divides_by_deviation=True,
        compares_ends=True,
        updates=4,
    ),
    Algorithm(
        "dapo_steps",
        _DAPO,
        replace(_SMALL_RL, critic_learning_rate=1e-3),
        is_grouped=True,
        has_critic=True,
        discounts=True,
        has_steps=True,
        replaces_groups=True,
    ),
    Algorithm("dpo", _DPO, Hyperparameters(learning_rate=3e-5), takes_pairs=True),
    Algorithm(
        "reward_model", _REWARD_MODEL, Hyperparameters(learning_rate=3e-4), takes_pairs=True, makes_reward_model=True
    ),
)
ALGORITHMS = {row.name: row for row in _ROWS}
