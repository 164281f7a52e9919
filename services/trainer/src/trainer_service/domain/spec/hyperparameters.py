"""Hyperparameters of a run."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum


class LearningRateSchedule(StrEnum):
    """How the learning rate goes on after the warm-up."""

    CONSTANT = "constant"
    COSINE = "cosine"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """None: the algorithm's default, or, in a complete spec, that the algorithm does not use it.

    Batches count prompts (RL), examples (SFT) or pairs (DPO, a reward model); a micro batch counts sequences, or pairs,
    or tokens, on one rank; lengths count tokens.
    """

    learning_rate: float | None = None
    batch_size: int | None = None
    group_size: int | None = None
    mini_batch_size: int | None = None
    micro_batch_size: int | None = None
    micro_batch_tokens: int | None = None
    gradient_checkpointing: bool | None = None
    max_prompt_tokens: int | None = None
    max_response_tokens: int | None = None
    temperature: float | None = None
    clip_low: float | None = None
    clip_high: float | None = None
    kl_coefficient: float | None = None
    entropy_coefficient: float | None = None
    max_grad_norm: float | None = None
    critic_learning_rate: float | None = None
    gae_lambda: float | None = None
    gamma: float | None = None
    warmup_steps: int | None = None
    weight_decay: float | None = None
    learning_rate_schedule: str | None = None
    """One of LearningRateSchedule."""
    learning_rate_end_ratio: float | None = None
    temperature_end: float | None = None
    kl_in_reward: bool | None = None
    overlong_penalty: float | None = None
    overlong_buffer: float | None = None
    max_staleness: int | None = None
    lora_rank: int | None = None
    """0: all weights are trained."""
    lora_alpha: int | None = None
    dpo_beta: float | None = None

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
