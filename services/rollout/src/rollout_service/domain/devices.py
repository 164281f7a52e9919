"""The GPUs of this machine, and which of them a policy gets."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from ratchet_kit.errors import FieldViolation, InvalidArgument, ResourceExhausted

ROOM_RETRY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Devices:
    """GPUs, each cut into equal shares, of which an engine takes one on each GPU that it spreads over.

    Shares are equal and fixed at start, because vLLM claims its memory once, while it lives: what one engine may
    take must be left by the others, also by those that are loaded later.
    """

    ids: tuple[str, ...] = ()
    """As CUDA_VISIBLE_DEVICES names them. None of them: policies are on the CPU, and get none."""
    shares: int = 1
    """Engines that one GPU has room for."""
    memory: float = 0.9
    """The part of a GPU's memory that all engines on it may take together."""
    spread: int = 1
    """GPUs of a policy whose request says nothing."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each GPU by its UUID, where they are known."""

    @classmethod
    def of(cls, ids: Sequence[str], capacity: int, memory: float, spread: int, sizes: Mapping[str, int]) -> "Devices":
        """Cut so that `capacity` policies have room, each on `spread` GPUs."""
        shares = math.ceil(capacity * spread / len(ids)) if ids else 1
        return cls(tuple(ids), shares, memory, spread, sizes)

    @property
    def gpu_memory(self) -> Mapping[str, int]:
        """Bytes that all engines may take of each GPU, by its UUID."""
        return {uuid: int(self.memory * size) for uuid, size in self.sizes.items()}

    @property
    def memory_share(self) -> float:
        """The part of a GPU's memory that one engine may take."""
        return self.memory / self.shares

    def place(self, taken: Iterable[Sequence[str]], count: int | None) -> tuple[str, ...]:
        """The GPUs of one more policy: `count` of those with the fewest engines. `taken`: the GPUs of every other.

        Raises:
            InvalidArgument: there are not so many GPUs.
            ResourceExhausted: too many of them have no share left.
        """
        if not self.ids:
            return ()
        wanted = count or self.spread
        if wanted > len(self.ids):
            fault = f"must be at most {len(self.ids)}, the GPUs of this service"
            raise InvalidArgument(
                "the policy cannot be loaded", [FieldViolation("options.tensor_parallel_size", fault)]
            )
        engines = Counter(id for policy in taken for id in policy)
        free = sorted((id for id in self.ids if engines[id] < self.shares), key=lambda id: engines[id])
        if len(free) < wanted:
            raise ResourceExhausted(
                f"{len(free)} of {len(self.ids)} GPUs have room for one more engine, and this policy needs {wanted};"
                " unload one first",
                retry_after=ROOM_RETRY,
            )
        return tuple(sorted(free[:wanted], key=self.ids.index))
