"""Rollout nodes in memory, for the tests of what chooses between them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit.errors import FailedPrecondition, NotFound, RatchetError, ResourceExhausted, Unavailable
from ratchet_kit.work import Priority
from ratchet_policies import (
    Completion,
    Delta,
    Engine,
    Generation,
    Node,
    NodeReport,
    NodeState,
    Policy,
    PolicySpec,
    PolicyState,
    Prompt,
    Purpose,
    Sampling,
)


@dataclass
class MemoryNode:
    """Loads at once, answers with its own address. `fault` is raised by every call, `failing` by generations."""

    address: str
    capacity: int = 4
    peers: tuple[str, ...] = ()
    advertised: str = ""
    policies: dict[str, Policy] = field(default_factory=dict)
    fault: RatchetError | None = None
    failing: RatchetError | None = None
    refusing: RatchetError | None = None
    """Raised by new weights."""
    draining: bool = False
    hangs: bool = False
    slow: asyncio.Event | None = None
    """Generations wait for it."""
    under_way: int = 0
    others: int = 0
    """Sequences of other callers."""
    answered: int = 0
    touched: int = 0
    heard_of: set[str] = field(default_factory=set)
    closed: bool = False
    pieces: int = 3
    breaks_after: int | None = None

    async def report(self, caller: str = "") -> NodeReport:
        await self._reach()
        self.heard_of.add(caller)
        engines = tuple(
            Engine(name, policy.state, policy.policy_id, Purpose.SERVING, self.others)
            for name, policy in self.policies.items()
        )
        state = NodeState.DRAINING if self.draining else NodeState.SERVING
        free = dict.fromkeys(Purpose, self.capacity - len(self.policies))
        return NodeReport(Node(self.advertised, state, self.capacity, engines, free), self.peers)

    async def drain(self, draining: bool) -> Node:
        await self._reach()
        self.draining = draining
        return Node(state=NodeState.DRAINING if draining else NodeState.SERVING)

    async def load(self, spec: PolicySpec) -> Policy:
        await self._reach(new=True)
        if spec.name in self.policies:
            self.touched += 1
            return self.policies[spec.name]
        if len(self.policies) >= self.capacity:
            raise ResourceExhausted(f"{self.capacity} policies are loaded")
        self.policies[spec.name] = Policy(spec.name, PolicyState.READY, spec.policy_id)
        return replace(self.policies[spec.name], state=PolicyState.LOADING)

    async def get(self, name: str) -> Policy:
        await self._reach()
        if name not in self.policies:
            raise NotFound(f"policy {name} is not loaded")
        return self.policies[name]

    async def listed(self) -> Sequence[pb.Policy]:
        await self._reach()
        return [
            pb.Policy(name=name, state=pb.Policy.STATE_READY, policy_id=policy.policy_id)
            for name, policy in sorted(self.policies.items())
        ]

    async def all(self) -> Sequence[Policy]:
        await self._reach()
        return list(self.policies.values())

    async def unload(self, name: str) -> None:
        await self.get(name)
        del self.policies[name]

    async def generate(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> Generation:
        await self._serve(name, policy_id)
        self.answered += 1
        return Generation((Completion(0, self.address),), policy_id, 1)

    async def stream(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        await self._serve(name, policy_id)
        self.answered += 1
        for piece in range(self.pieces):
            if piece == self.breaks_after:
                raise Unavailable("the engine died")
            yield Delta(Completion(0, self.address), policy_id, 1)

    async def update(self, name: str, messages: AsyncIterator[Any], timeout: float) -> Any:
        await self.get(name)
        if self.refusing is not None:
            raise self.refusing
        self.policies[name] = replace(self.policies[name], policy_id="sha256:updated")
        return pb.UpdateWeightsResponse()

    async def close(self) -> None:
        self.closed = True

    async def _serve(self, name: str, policy_id: str) -> None:
        await self._reach(new=True)
        await asyncio.sleep(0)
        if self.slow is not None:
            self.under_way += 1
            try:
                await self.slow.wait()
            finally:
                self.under_way -= 1
        if self.failing is not None:
            raise self.failing
        if (await self.get(name)).policy_id != policy_id:
            raise FailedPrecondition(f"{name} has other weights")

    async def _reach(self, new: bool = False) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        if new and self.draining:
            raise Unavailable("this rollout node is drained")


def connector(*nodes: MemoryNode) -> Callable[[str], MemoryNode]:
    """What connects to one of them by its address."""
    return {node.address: node for node in nodes}.__getitem__
