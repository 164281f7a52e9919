"""A stream of new weights for a policy: tensors, each a header followed by its bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from rollout_service.domain.policy import Policy, PolicyId, PolicyName


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Start of a tensor."""

    name: str
    dtype: str
    """As safetensors writes it: F32, BF16, F16."""
    shape: tuple[int, ...]
    sha256: str
    """In hex, of the tensor's bytes: little endian, contiguous."""
    changes: bool = False
    """What comes is not its bytes but what `ratchet_policies.tensor_changes` makes of them and those of the base."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next bytes of the current tensor."""

    data: bytes


WeightStream = AsyncIterator[TensorHeader | Chunk]


@dataclass(frozen=True, slots=True)
class WeightUpdate:
    """Which policy gets new weights, and the policy id that they must have.

    `base`: the weights that these are changes of; None where all come, whole. `interrupts`: breaks off what is being
    generated, instead of waiting for it.
    """

    policy: PolicyName
    policy_id: PolicyId
    step: int
    base: PolicyId | None = None
    interrupts: bool = False


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """The reply of an engine to new weights."""

    probe_error: float
    """The largest relative difference between what the engine computes and what the sent weights give."""
    in_place: bool = False
    """Only what changed was applied."""


@dataclass(frozen=True, slots=True)
class WeightUpdateResult:
    policy: Policy
    size_bytes: int
    received_bytes: int
    """Fewer than `size_bytes` where changes came."""
    receive_duration: timedelta
    """Until they were on the disk."""
    prepare_duration: timedelta
    """Until the engine could take them; it generated meanwhile."""
    load_duration: timedelta
    """That generation paused."""
    probe_error: float
