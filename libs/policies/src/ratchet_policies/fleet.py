"""PolicyEngine on all the rollout nodes that there are.

A request goes to one of the engines that have the policy's weights: see `choice`. Before its first piece it may be sent
again, to another engine; after that never. Every node is looked at (`directory`), every engine has a breaker.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self

from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet_kit import client
from ratchet_kit.errors import NotFound, RatchetError, ResourceExhausted, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.work import Priority
from ratchet_policies.answers import Answers, first_error, gathered, good, patiently
from ratchet_policies.convert import policy_from_proto
from ratchet_policies.directory import Directory
from ratchet_policies.generation import Delta, Generation, Prompt, Sampling
from ratchet_policies.hedging import Hedges, Hedging
from ratchet_policies.member import FAULTS, Member, NodeEngine
from ratchet_policies.node import Node
from ratchet_policies.policy import EngineUsage, Policy, PolicySpec, PolicyState, Purpose
from ratchet_policies.prefix_choice import ranked
from ratchet_policies.rollout import RolloutEngine
from ratchet_policies.route import AGAIN, Route

log = get_logger(__name__)

_RANK = (PolicyState.READY, PolicyState.LOADING, PolicyState.UNLOADING, PolicyState.FAILED)
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class _Begun:
    """A stream, of which the first piece has come."""

    first: Delta | None
    rest: AsyncGenerator[Delta]


class Fleet:
    """`seeds`: addresses of rollout nodes, of which one has to answer: the others are learnt. A context manager.

    `hedging`: None asks no second engine while the first may still answer.
    """

    def __init__(
        self, seeds: Sequence[str], connect: Callable[[str], NodeEngine], hedging: Hedging | None = None
    ) -> None:
        self._directory = Directory(seeds, connect)
        self._hedges = Hedges(hedging)

    @classmethod
    def of(
        cls,
        target: str,
        *,
        generate_timeout: timedelta = timedelta(minutes=10),
        unload_timeout: timedelta = timedelta(minutes=1),
        hedging: Hedging | None = None,
    ) -> Self:
        """`target`: host:port of one node, or of several, separated by commas."""
        opened = partial(connect, generate_timeout=generate_timeout, unload_timeout=unload_timeout)
        return cls(seeds_of(target), opened, hedging)

    async def __aenter__(self) -> Self:
        await self._directory.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._directory.__aexit__(kind, error, trace)

    # Nodes

    def nodes(self) -> Sequence[Node]:
        """By address."""
        return [member.node for member in self._directory.members]

    async def drain(self, address: str, draining: bool) -> Node:
        """See `NodeEngine.drain`. Raises NotFound, Unavailable."""
        for member in self._directory.members:
            if member.address == address:
                member.node = replace(await member.engine.drain(draining), address=address)
                return member.node
        raise NotFound(f"no rollout node has the address {address}")

    # Policies

    async def load(self, spec: PolicySpec) -> Policy:
        """On the node with the most room for its purpose; on another, where that has none after all."""
        self._want(spec.name)
        refusal: RatchetError | None = None
        for member in self._places(spec):
            try:
                policy = await member.engine.load(spec)
            except (ResourceExhausted, Unavailable) as error:
                refusal = error if refusal is None or isinstance(error, ResourceExhausted) else refusal
            else:
                log.info("policy.placed", policy=spec.name, node=member.address)
                return policy
            finally:
                member.look.set()
        raise refusal or Unavailable("no rollout node takes policies now")

    async def keep(self, spec: PolicySpec, replicas: int) -> None:
        """Says where it is loaded for serving that it is in use, as only that is evicted when idle, and starts to load
        it on more nodes until `replicas` have it, as far as these have room. Raises nothing for a node that
        refuses."""
        self._want(spec.name)
        holding = [member for member in self._open() if member.holds(spec.name)]
        others = [member for member in self._places(spec) if member not in holding]
        room = [member for member in others if member.is_up and member.node.free.get(spec.purpose, 0) > 0]
        more = room[: max(0, replicas - len(holding))] if holding else []
        touched = holding if spec.purpose is Purpose.SERVING else []
        for member, answer in await gathered([*touched, *more], lambda member: member.engine.load(spec)):
            if isinstance(answer, RatchetError):
                log.warning("policy.not_kept", policy=spec.name, node=member.address, reason=answer.message)
            elif member in more:
                log.info("policy.replicated", policy=spec.name, node=member.address)
                member.look.set()

    def answers(self, name: str, policy_id: str) -> bool:
        """True where a node that is up has it ready with these weights, and the breaker lets a request pass."""
        return any(member.is_up and member.is_ready(name, policy_id) for member in self._open())

    async def get(self, name: str) -> Policy:
        """Where several nodes have it, the one that is nearest to READY, with the usage of all."""
        (_, nearest), having = await self._having(name)
        return replace(nearest, usage=sum((policy.usage for _, policy in having), EngineUsage()))

    async def all(self) -> Sequence[Policy]:
        return list(map(policy_from_proto, await self.listed()))

    async def listed(self) -> Sequence[pb.Policy]:
        """In protobuf, by name. What several nodes have is there once, as the one that is nearest to READY."""
        answers = await patiently(lambda: gathered(self._open(), lambda member: member.engine.listed()), first_error)
        policies: dict[str, pb.Policy] = {}
        for policy in sorted(
            (policy for _, listed in answers for policy in listed),
            key=lambda policy: (policy.name, _nearness(policy_from_proto(policy))),
        ):
            policies.setdefault(policy.name, policy)
        return list(policies.values())

    async def unload(self, name: str) -> None:
        """From all nodes; from one that is away once it is back."""
        known = self._directory.members
        members = [member for member in known if member.is_up] or known
        for member in known:
            if not member.is_up:
                member.unwanted.add(name)
        answers = await gathered(members, lambda member: member.engine.unload(name))
        for member, answer in answers:
            member.look.set()
            if isinstance(answer, RatchetError) and not isinstance(answer, NotFound):
                raise answer
        if not good(answers):
            raise first_error(answers)

    async def sleep(self, name: str) -> None:
        """On all nodes that have it."""
        _, having = await self._having(name)
        answers = await gathered([member for member, _ in having], lambda member: member.engine.sleep(name))
        if len(good(answers)) < len(answers):
            raise first_error(answers)

    async def update(
        self, name: str, messages: Callable[[str], AsyncIterator[pb.UpdateWeightsRequest]], timeout: float
    ) -> Sequence[pb.UpdateWeightsResponse]:
        """New weights for all engines that have the policy ready, in UpdateWeights of each; returns when all have
        ended. `messages`: those for an engine with the weights of the policy id.

        An engine that refuses them loses the policy, for `keep` to load it again. Raises what UpdateWeights says where
        none takes them.
        """
        nearest, having = await self._having(name)
        ready = dict([each for each in having if each[1].state is PolicyState.READY] or [nearest])

        async def send(member: Member) -> pb.UpdateWeightsResponse:
            own = messages(ready[member].policy_id)
            reply: pb.UpdateWeightsResponse = await member.unless_away(member.engine.update(name, own, timeout))
            return reply

        answers = await gathered(list(ready), send)
        for member in ready:
            member.look.set()
        if not (taken := good(answers)):
            raise first_error(answers)
        refused = []
        for member, answer in answers:
            if isinstance(answer, RatchetError):
                log.warning("policy.not_updated", policy=name, node=member.address, reason=answer.message)
                if not isinstance(answer, FAULTS):
                    refused.append(member)
        await gathered(refused, lambda member: member.engine.unload(name))
        return [reply for _, reply in taken]

    # Generation

    async def generate(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> Generation:
        async def call(member: Member) -> Generation:
            with member.serving(name, sampling.n):
                return await member.unless_away(member.engine.generate(name, policy_id, prompt, sampling, priority))

        async def discard(late: Generation) -> None:
            pass

        route = Route(self._open, name, policy_id, prompt)
        while True:
            member = await route.next()
            try:
                return await self._hedges.ask(route, member, call, discard)
            except AGAIN as error:
                route.failed(error)

    async def stream(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        async def pieces(member: Member) -> AsyncGenerator[Delta]:
            with member.serving(name, sampling.n):
                async with aclosing(member.engine.stream(name, policy_id, prompt, sampling, priority)) as deltas:
                    while (delta := await member.unless_away(anext(deltas, None))) is not None:
                        yield delta

        async def call(member: Member) -> _Begun:
            deltas = pieces(member)
            return _Begun(await anext(deltas, None), deltas)

        async def discard(late: _Begun) -> None:
            await late.rest.aclose()

        route = Route(self._open, name, policy_id, prompt)
        while True:
            member = await route.next()
            try:
                begun = await self._hedges.ask(route, member, call, discard)
                break
            except AGAIN as error:
                route.failed(error)
        async with aclosing(begun.rest) as rest:
            if begun.first is not None:
                yield begun.first
            async for delta in rest:
                yield delta

    # Choices

    def _want(self, name: str) -> None:
        for member in self._directory.members:
            member.unwanted.discard(name)

    def _open(self) -> list[Member]:
        """Nodes that take something new: those that answer, or where none does, all."""
        takes = [member for member in self._directory.members if member.takes_new]
        return [member for member in takes if member.is_up] or takes

    def _places(self, spec: PolicySpec) -> list[Member]:
        """Where it may be loaded: the most room for its purpose first, then the most memory."""
        members = self._open()
        order = [members[index] for index in ranked(spec.name.encode(), [member.address for member in members])]

        def most_room(member: Member) -> tuple[int, int]:
            return -member.node.free.get(spec.purpose, 0), -(member.node.free_memory // _GIB)

        return sorted(order, key=most_room)

    async def _having(self, name: str) -> tuple[tuple[Member, Policy], Answers]:
        """The one that is nearest to READY, and all. Raises NotFound where no node has it, or the error of one that had
        it, is silent now and not away yet."""

        def verdict(answers: Answers) -> RatchetError:
            errors = [(member, error) for member, error in answers if isinstance(error, RatchetError)]
            for member, error in errors:
                if not isinstance(error, NotFound) and member.is_up and member.holds(name):
                    return error
            return next((error for _, error in errors if isinstance(error, NotFound)), first_error(answers))

        answers = await patiently(lambda: gathered(self._open(), lambda member: member.engine.get(name)), verdict)
        return min(answers, key=lambda each: _nearness(each[1])), answers


def seeds_of(target: str) -> list[str]:
    """The addresses in a setting."""
    return [address.strip() for address in target.split(",") if address.strip()]


def connect(address: str, **timeouts: timedelta) -> RolloutEngine:
    """A node of its own channel, without gRPC's own retries: who asks knows other nodes."""
    return RolloutEngine(client.channel(address, retries=False), **timeouts)


def _nearness(policy: Policy) -> tuple[int, int]:
    """Among equally near ones, the one with more updates is first: the other was loaded later, from the source."""
    return _RANK.index(policy.state), -policy.weight_updates
