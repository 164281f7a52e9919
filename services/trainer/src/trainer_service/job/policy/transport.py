"""The road of weights from the trainer to the engine that generates with them: a port, and the values that travel."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ratchet_kit import policy_id
from ratchet_kit.policy_id import Tensor

AT_ONCE = min(8, len(os.sched_getaffinity(0)))
"""Tensors that are hashed, or encoded."""


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of a policy, by name, each hashed once."""

    tensors: Mapping[str, Tensor]
    hashes: Mapping[str, str]
    """sha256 in hex."""
    policy_id: str

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> "Weights":
        """Hashes them, in several threads."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            hashed = pool.map(lambda tensor: hashlib.sha256(tensor.data).hexdigest(), tensors)
            hashes = {tensor.name: one for tensor, one in zip(tensors, hashed, strict=True)}
        lines = ((one.name, one.dtype, one.shape, hashes[one.name]) for one in tensors)
        return cls({tensor.name: tensor for tensor in tensors}, hashes, policy_id.of_hashes(lines))

    @property
    def size_bytes(self) -> int:
        return sum(len(tensor.data) for tensor in self.tensors.values())


@dataclass(frozen=True, slots=True)
class WeightSync:
    """One successful transfer of weights."""

    policy_id: str
    sent_bytes: int
    """To all engines together. Fewer than the weights have where changes were sent."""
    probe_error: float
    """Largest relative difference between what the engine computes and what the sent weights give."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By part: "gather" (from all ranks to host memory), "hash", "send" (to the engine's machine), and of the slowest
    engine "prepare" and "pause"."""

    def took(self, **seconds: float) -> "WeightSync":
        """With the seconds of other parts, too."""
        return replace(self, seconds={**self.seconds, **seconds})


class WeightTransport(Protocol):
    """One road: `StreamTransport`, by way of the engine's disk. Another one (shared memory, NCCL) is a class beside it,
    which RunPolicy.of chooses. A road tries once: the patience is RunPolicy's.
    """

    async def send(self, policy: str, weights: Weights, step: int, base: Weights | None = None) -> WeightSync:
        """Gives the loaded `policy` these weights, of the trainer's `step`. Returns when each engine that has it
        generates with them and a probe has computed with them. The id in the answer is the one that the engines show,
        a wrong one before the right one; the caller compares it with that of `weights`.

        `base`: the weights that the policy had last. A road may send what differs from them to an engine that has them;
        another gets all.

        Raises:
            NotFound: the engine does not have the policy.
            FailedPrecondition: the policy has failed.
            DataLoss: what arrived is not what was sent. Without `base` trying again does not help.
            Unavailable and the other transient errors: the weights may be sent again, whole.
        """
        ...


def size_of_weights(folder: str) -> int:
    """Bytes of the weights in a model's folder."""
    return sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
