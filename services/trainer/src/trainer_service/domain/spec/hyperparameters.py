"""Hyperparameters: a field of `Hyperparameters` for each, which is its row as well. Algorithms' defaults, validation,
overrides for verl, hints to callers who set verl directly, and docs/training/hyperparameters.md come from the rows. To
add one: a field of the proto, whose comment says what it is, and a row here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum, auto
from typing import Any


class LearningRateSchedule(StrEnum):
    """How the learning rate goes on after the warm-up."""

    CONSTANT = "constant"
    COSINE = "cosine"
    LINEAR = "linear"


class UsedBy(StrEnum):
    """Algorithms that have a use for it (`Algorithm.applicable`)."""

    ALL = auto()
    RL = auto()
    """Algorithms that learn from their own completions."""
    CRITIC = auto()
    """Algorithms of RL with a critic."""
    POLICY = auto()
    """Every algorithm but those that make a reward model."""
    DPO = auto()


@dataclass(frozen=True, slots=True)
class Row:
    used_by: UsedBy
    default: float | str | None
    """Default, unless the run or the algorithm says another. None: computed (`defaults.complete`), or not set."""
    bounds: Mapping[str, float]
    """As `Faults.bounds` takes them."""
    choices: tuple[str, ...]
    rl: tuple[str, ...]
    """Settings of verl's trainer of RL that take the value as it is; those of the critic only where there is one."""
    examples: tuple[str, ...]
    """The same of verl's trainer of examples, which also learns from pairs."""
    stands_for: tuple[str, ...]
    """Patterns of verl's other settings that are refused, since this says it."""


def _row(
    used_by: UsedBy = UsedBy.ALL,
    *,
    default: float | str | None = None,
    choices: tuple[str, ...] = (),
    rl: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
    stands_for: tuple[str, ...] = (),
    **bounds: float,
) -> Any:
    return field(default=None, metadata={"row": Row(used_by, default, bounds, choices, rl, examples, stands_for)})


_RL, _CRITIC, _POLICY = UsedBy.RL, UsedBy.CRITIC, UsedBy.POLICY
_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_CLIP = f"{_ACTOR}.clip_ratio*"
_PENALTY = ("algorithm.use_kl_in_reward", "algorithm.kl_*", f"{_ACTOR}.use_kl_loss", f"{_ACTOR}.kl_loss_coef")
_SCHEDULE = ("*.lr_scheduler_type", "*.min_lr_ratio", "*.num_cycles", "*.warmup_style")


def _optimizers(setting: str) -> Mapping[str, Any]:
    of_rl = (f"{_ACTOR}.optim.{setting}", f"critic.optim.{setting}")
    return {"rl": of_rl, "examples": (f"optim.{setting}",)}


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """None: the algorithm's default, or, in a complete spec, that the algorithm does not use it.

    Batches count prompts (RL), examples (SFT) or pairs (DPO, a reward model); a micro batch counts tokens, on one rank;
    so do lengths.
    """

    learning_rate: float | None = _row(
        default=1e-6, above=0, at_most=1, rl=(f"{_ACTOR}.optim.lr",), examples=("optim.lr",)
    )
    critic_learning_rate: float | None = _row(_CRITIC, default=1e-5, above=0, at_most=1, rl=("critic.optim.lr",))
    batch_size: int | None = _row(
        default=16, at_least=1, rl=("data.train_batch_size",), examples=("data.train_batch_size",)
    )
    group_size: int | None = _row(_RL, default=8, at_least=1, rl=(f"{_ROLLOUT}.n",))
    mini_batch_size: int | None = _row(
        _RL, at_least=1, rl=(f"{_ACTOR}.ppo_mini_batch_size",), stands_for=("*.ppo_mini_batch_size",)
    )
    micro_batch_tokens: int | None = _row(at_least=1, stands_for=("*micro_batch_size*", "*max_token_len_per_gpu"))
    gradient_checkpointing: bool | None = _row(stands_for=("*.enable_gradient_checkpointing",))
    max_prompt_tokens: int | None = _row(at_least=1, rl=("data.max_prompt_length",))
    max_response_tokens: int | None = _row(at_least=1, rl=("data.max_response_length",))
    temperature: float | None = _row(_RL, default=1.0, above=0, at_most=10, rl=(f"{_ROLLOUT}.temperature",))
    temperature_end: float | None = _row(_RL, above=0, at_most=10, stands_for=(f"{_ROLLOUT}.temperature",))
    clip_low: float | None = _row(
        _RL, default=0.2, above=0, at_most=1, rl=(f"{_ACTOR}.clip_ratio_low",), stands_for=(_CLIP,)
    )
    clip_high: float | None = _row(
        _RL, default=0.2, above=0, at_most=10, rl=(f"{_ACTOR}.clip_ratio_high",), stands_for=(_CLIP,)
    )
    kl_coefficient: float | None = _row(_RL, default=0.0, at_least=0, stands_for=_PENALTY)
    kl_in_reward: bool | None = _row(_RL, default=False, stands_for=_PENALTY)
    entropy_coefficient: float | None = _row(_RL, default=0.0, at_least=0, rl=(f"{_ACTOR}.entropy_coeff",))
    overlong_penalty: float | None = _row(_RL, default=0.0, at_least=0, at_most=1)
    overlong_buffer: float | None = _row(_RL, default=0.2, above=0, at_most=1)
    unrewarded_tests: float | None = _row(_RL, default=0.0, at_least=0, at_most=0.9)
    max_staleness: int | None = _row(_RL, default=0, at_least=0, at_most=8)
    turn_discount: float | None = _row(_RL, default=0.0, at_least=0, at_most=1)
    gamma: float | None = _row(_RL, default=1.0, at_least=0, at_most=1, rl=("algorithm.gamma",))
    gae_lambda: float | None = _row(_RL, default=1.0, at_least=0, at_most=1, rl=("algorithm.lam",))
    max_grad_norm: float | None = _row(
        default=1.0, above=0, rl=(f"{_ACTOR}.grad_clip", "critic.grad_clip"), examples=("optim.clip_grad",)
    )
    lora_rank: int | None = _row(_POLICY, default=0, at_least=0, at_most=1024, stands_for=("*lora*",))
    lora_alpha: int | None = _row(_POLICY, at_least=1, at_most=65536, stands_for=("*lora*",))
    dpo_beta: float | None = _row(UsedBy.DPO, default=0.1, above=0, at_most=100)
    warmup_steps: int | None = _row(
        default=5, at_least=0, stands_for=("*.lr_warmup_steps*",), **_optimizers("lr_warmup_steps")
    )
    learning_rate_schedule: str | None = _row(
        default=LearningRateSchedule.CONSTANT, choices=tuple(LearningRateSchedule), stands_for=_SCHEDULE
    )
    learning_rate_end_ratio: float | None = _row(
        default=0.0, at_least=0, at_most=1, stands_for=_SCHEDULE, **_optimizers("min_lr_ratio")
    )
    weight_decay: float | None = _row(default=0.01, at_least=0, **_optimizers("weight_decay"))

    def over(self, second: "Hyperparameters") -> "Hyperparameters":
        """These, and where they say nothing, `second`."""
        missing = {f.name: getattr(second, f.name) for f in fields(self) if getattr(self, f.name) is None}
        return replace(self, **missing)

    @property
    def max_tokens(self) -> int:
        """Prompt and response together."""
        return (self.max_prompt_tokens or 0) + (self.max_response_tokens or 0)

    def together(self, pairs: bool) -> int:
        """Tokens that one pass has to hold: the longest sequence, or the two of a pair."""
        return self.max_tokens * (2 if pairs else 1)

    @property
    def samples(self) -> int:
        """Completions (RL), examples (SFT) or pairs (DPO, a reward model) of one step."""
        return (self.batch_size or 0) * (self.group_size or 1)

    def update_sequences(self, ranks: int) -> int:
        """Sequences of one gradient update that fall to one rank; 0 when they do not divide."""
        prompts = self.mini_batch_size or self.batch_size or 0
        sequences, rest = divmod(prompts * (self.group_size or 1), ranks)
        return 0 if rest else sequences

    def is_shared_by(self, ranks: int) -> bool:
        """True if each has as many sequences of a step, and of an update."""
        return not self.samples % ranks and self.update_sequences(ranks) > 0


ROWS: Mapping[str, Row] = {one.name: one.metadata["row"] for one in fields(Hyperparameters)}
