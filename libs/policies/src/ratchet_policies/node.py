"""A rollout-service among others: what it holds, and how busy it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ratchet_policies.policy import PolicyState, Purpose


class NodeState(StrEnum):
    SERVING = "serving"
    DRAINING = "draining"
    """It takes nothing new, and ends what it has."""
    AWAY = "away"
    """It does not answer."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A policy on a node."""

    policy: str
    state: PolicyState
    policy_id: str = ""
    """The weights that it has; empty while loading."""
    purpose: Purpose = Purpose.SERVING
    sequences: int = 0
    """Completions in progress or waiting."""
    kv_cache_tokens: int = 0
    """Tokens of prompts and completions that it has memory for at a time. Known when it is READY."""
    library: str = ""
    """The library that generates: "vLLM" or "transformers". Known when it is READY."""


@dataclass(frozen=True, slots=True)
class Node:
    address: str = ""
    """host:port at which others reach it; empty: as it was called."""
    state: NodeState = NodeState.SERVING
    capacity: int = 0
    """The most policies at a time."""
    engines: tuple[Engine, ...] = ()
    free: Mapping[Purpose, int] = field(default_factory=dict)
    """Policies that fit beside those that are loaded, by what for."""
    devices: tuple[str, ...] = ()
    """GPUs; none on CPU."""
    free_memory: int = 0
    """Bytes, of the machine."""
    gpu_memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each GPU that its engines may take, by the GPU's UUID, as far as it is known."""
    detail: str = ""
    """Reason why it is away, or starts engines again: one sentence."""

    @property
    def sequences(self) -> int:
        return sum(engine.sequences for engine in self.engines)

    def engine(self, policy: str) -> Engine | None:
        return next((engine for engine in self.engines if engine.policy == policy), None)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's description of itself."""

    node: Node
    peers: tuple[str, ...] = ()
    """Addresses of the other nodes that answer it."""
