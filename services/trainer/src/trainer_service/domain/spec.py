"""What a run is asked to do. Plain values: `validation` says whether they make sense, `defaults` fills in the rest."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Algorithm(StrEnum):
    SFT = "sft"
    GRPO = "grpo"
    PPO = "ppo"
    RLOO = "rloo"
    DAPO = "dapo"
    REINFORCE_PLUS_PLUS = "reinforce++"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True)
class ModelRef:
    """Where the base comes from: a registry version ("starter@3"), an alias ("starter:champion") or a folder."""

    kind: Literal["version", "alias", "path"]
    value: str


@dataclass(frozen=True)
class ProblemSetRef:
    """A named set or the path of a JSONL file. `digest` is what it held when the run was created."""

    name: str
    limit: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Resources:
    """`accelerators_per_node`: training ranks a node; on CPU a rank is a process."""

    nodes: int = 0
    accelerators_per_node: int = 0
    device: str = ""

    @property
    def ranks(self) -> int:
        return self.nodes * self.accelerators_per_node


@dataclass(frozen=True)
class Hyperparameters:
    """None means: the algorithm's default. Token counts, prompts and sequences are whole numbers of those."""

    learning_rate: float | None = None
    batch_size: int | None = None
    group_size: int | None = None
    mini_batch_size: int | None = None
    micro_batch_size: int | None = None
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


@dataclass(frozen=True)
class RunSpec:
    """A request as it came, or, after `defaults.complete`, with every open choice made.

    `algorithm` and `priority` are the asked name where it is not one we know; an empty string where none was given.
    """

    base: ModelRef | None
    algorithm: Algorithm | str
    problems: ProblemSetRef
    steps: int
    display_name: str = ""
    validation_problems: ProblemSetRef | None = None
    reward: str = ""
    resources: Resources = Resources()
    seed: int = 0
    hyperparameters: Hyperparameters = Hyperparameters()
    validate_every: int = 0
    checkpoint_every: int = 0
    loggers: tuple[str, ...] = ()
    output_model: str = ""
    priority: Priority | str = ""
    verl_overrides: tuple[str, ...] = ()
