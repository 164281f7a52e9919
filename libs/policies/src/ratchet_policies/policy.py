"""A policy that rollout-service holds, and what to ask for to have one."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ratchet_kit.errors import Failure


class Purpose(StrEnum):
    """The purpose that a policy is loaded for. Each has room of its own, and none takes that of another."""

    SERVING = "serving"
    TRAINING = "training"
    EVALUATION = "evaluation"


class PolicyState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True)
class EngineUsage:
    """Resources that the engines of a policy have used since it was loaded."""

    gpu_time: timedelta = timedelta()
    cpu_time: timedelta = timedelta()
    tokens: int = 0
    """Tokens of prompts and completions, all callers' together."""
    gpu_busy_time: timedelta = timedelta()
    gpu_watched_time: timedelta = timedelta()

    def __add__(self, other: "EngineUsage") -> "EngineUsage":
        return EngineUsage(
            self.gpu_time + other.gpu_time,
            self.cpu_time + other.cpu_time,
            self.tokens + other.tokens,
            self.gpu_busy_time + other.gpu_busy_time,
            self.gpu_watched_time + other.gpu_watched_time,
        )


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    state: PolicyState
    policy_id: str = ""
    """The hash of the weights that are loaded; empty while loading."""
    failure: Failure | None = None
    """Why it is FAILED."""
    weight_updates: int = 0
    """How often its weights were replaced since it was loaded: above 0, a run trains it."""
    has_chat_template: bool = False
    """Known when it is READY; without one it takes texts and tokens only."""
    settings_id: str = ""
    """The hash of its config, tokenizer and chat template. Known when it is READY."""
    usage: EngineUsage = EngineUsage()


@dataclass(frozen=True, slots=True)
class PolicySpec:
    name: str
    """The name by which calls address it. Unique in rollout-service while it is loaded."""
    source: str
    """Folder or fsspec URL of a Hugging Face model."""
    policy_id: str = ""
    """The weights that it must have; empty: whatever the source holds."""
    dtype: str = ""
    """"float32", "bfloat16" or "float16"; empty: what the machine is fast and exact in."""
    max_model_len: int | None = None
    """Prompt plus completion, in tokens; None: what the model's config says."""
    purpose: Purpose = Purpose.SERVING
    sleeps: bool = False
    """It can be put to sleep."""
    model: str = ""
    """Model of the registry whose settings it has; empty: `name` up to "@"."""
