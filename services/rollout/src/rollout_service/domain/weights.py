"""Weights on their way into a policy: a header, then tensors, each followed by its bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from rollout_service.domain.policy import Policy, PolicyId, PolicyName


@dataclass(frozen=True)
class TensorHeader:
    """Starts a tensor."""

    name: str
    dtype: str
    """As in safetensors: F32, BF16, F16."""
    shape: tuple[int, ...]
    sha256: str
    """Hex, over the bytes: little endian, contiguous."""


@dataclass(frozen=True)
class Chunk:
    """The next bytes of the tensor that was started last."""

    data: bytes


WeightStream = AsyncIterator[TensorHeader | Chunk]


@dataclass(frozen=True)
class WeightUpdate:
    """Which policy gets new weights, and the id that they must hash to."""

    policy: PolicyName
    policy_id: PolicyId
    step: int


@dataclass(frozen=True)
class LoadedWeights:
    """What an engine says after it took new weights."""

    probe_error: float
    """Largest relative difference between what the engine computes and what the sent weights give."""


@dataclass(frozen=True)
class WeightUpdateResult:
    policy: Policy
    bytes: int
    receive_duration: timedelta
    load_duration: timedelta
    probe_error: float
