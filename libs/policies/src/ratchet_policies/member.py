"""A rollout node as one process sees it: is it there, what does it hold, how does each engine do."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ratchet_kit.errors import Cancelled, DeadlineExceeded, Internal, NotFound, RatchetError, Unavailable
from ratchet_policies.breaker import Breaker
from ratchet_policies.engine import PolicyEngine
from ratchet_policies.node import Node, NodeReport, NodeState
from ratchet_policies.policy import PolicyState

STRIKES = 3
"""Looks in a row that it did not answer: it is away."""
FAULTS: tuple[type[RatchetError], ...] = (Unavailable, Cancelled, DeadlineExceeded, Internal)
"""Errors that speak against an engine. gRPC says Cancelled where a server that stops ends a call."""

T = TypeVar("T")


class NodeEngine(PolicyEngine, Protocol):
    """One node: a PolicyEngine that says how it is."""

    async def report(self, caller: str = "") -> NodeReport:
        """`caller`: the address of a node that asks. Raises Unavailable, DeadlineExceeded; Unimplemented where the
        service knows nothing of nodes."""
        ...

    async def drain(self, draining: bool) -> Node:
        """From now on it takes nothing new; or takes it again."""
        ...

    async def listed(self) -> Sequence[Any]:
        """All policies, in protobuf."""
        ...

    async def update(self, name: str, messages: AsyncIterator[Any], timeout: float) -> Any:
        """UpdateWeights, in protobuf, within `timeout` seconds. Raises what it says."""
        ...

    async def sleep(self, name: str) -> None:
        """Frees the memory of the policy's GPUs until it is needed. Raises NotFound, FailedPrecondition."""
        ...

    async def close(self) -> None: ...


class Member:
    """`address`: as it is called. Mutable: each look at it, and each request, changes it."""

    def __init__(self, address: str, engine: NodeEngine) -> None:
        self.address = address
        self.engine = engine
        self.node = Node(address, NodeState.AWAY, detail="it was not looked at yet")
        self.alias_of = ""
        """The address that it has by its own word, where that is another: a seed may be a name of many nodes."""
        self.looked = asyncio.Event()
        self.look = asyncio.Event()
        """Set: look at it now."""
        self.strikes = STRIKES
        self.heard = time.monotonic()
        self.unwanted: set[str] = set()
        """Policies that were unloaded while it was away: it may come back with them."""
        self._own: Counter[str] = Counter()
        self._own_at_report: Counter[str] = Counter()
        self._breakers: defaultdict[str, Breaker] = defaultdict(Breaker)
        self._limits: set[asyncio.Timeout] = set()

    @property
    def is_up(self) -> bool:
        return self.strikes < STRIKES

    @property
    def takes_new(self) -> bool:
        return self.node.state is not NodeState.DRAINING

    def answered(self, report: NodeReport | None) -> None:
        """None: it is there, and knows nothing of nodes."""
        node = report.node if report else Node()
        self.alias_of = node.address if node.address != self.address else ""
        self.node = replace(node, address=self.address)
        self.strikes, self.heard = 0, time.monotonic()
        self._own = +self._own
        self._own_at_report = Counter(self._own)
        for policy in [policy for policy in self._breakers if not (node.engine(policy) or self._own[policy])]:
            del self._breakers[policy]  # runs and evaluations have policies of their own, as long as they take
        self.looked.set()

    async def drop_unwanted(self) -> None:
        """Raises what unloading raises: the rest is for the next look."""
        for policy in sorted(self.unwanted):
            with suppress(NotFound):
                await self.engine.unload(policy)
            self.unwanted.discard(policy)

    def struck(self, error: RatchetError) -> None:
        """It did not answer a look."""
        self.strikes += 1
        if not self.is_up:
            self.node = replace(self.node, state=NodeState.AWAY, detail=error.message)
        self.looked.set()

    def is_ready(self, policy: str, policy_id: str) -> bool:
        """True where it has the policy with these weights, as far as is known, and its engine does not fail."""
        engine = self.node.engine(policy)
        has = engine is not None and (engine.state, engine.policy_id) == (PolicyState.READY, policy_id)
        return has and self.allows(policy)

    def holds(self, policy: str) -> bool:
        """True where it has the policy, or is loading it, as far as is known."""
        engine = self.node.engine(policy)
        return engine is not None and engine.state is not PolicyState.FAILED

    def allows(self, policy: str) -> bool:
        """True where the breaker of the policy's engine lets a request pass."""
        return policy not in self._breakers or self._breakers[policy].allows

    def load(self, policy: str) -> int:
        """Sequences: those of the last report, and what this process has sent and got back since."""
        engine = self.node.engine(policy)
        since = self._own[policy] - self._own_at_report[policy]
        return max(self._own[policy], (engine.sequences if engine else 0) + since)

    @contextmanager
    def serving(self, policy: str, sequences: int) -> Iterator[None]:
        """Around a request: counts it as load, and its end for or against the engine."""
        breaker = self._breakers[policy]
        breaker.begin()
        self._own[policy] += sequences
        try:
            yield
        except FAULTS:
            breaker.failed()
            self.look.set()
            raise
        except BaseException:
            breaker.ended()
            raise
        else:
            breaker.succeeded()
        finally:
            self._own[policy] -= sequences

    async def unless_away(self, answer: Awaitable[T]) -> T:
        """`answer`, or Unavailable once `abandon` was called."""
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                try:
                    return await answer
                finally:
                    self._limits.discard(limit)
        except TimeoutError as error:
            raise Unavailable(f"rollout node {self.address} does not answer any more") from error

    def abandon(self) -> None:
        """Ends what waits for it, since others can answer."""
        now = asyncio.get_running_loop().time()
        while self._limits:
            self._limits.pop().reschedule(now)
