"""The use cases of the service: policies are loaded, used by name, updated and unloaded, as far as there is room."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from ratchet_kit.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_policies import Engine, Node, NodeState, PolicyState, Purpose
from rollout_service.domain.devices import Devices
from rollout_service.domain.generation import EngineOutput, Generation, GenerationRequest
from rollout_service.domain.host import PolicyHost, RestartLimits
from rollout_service.domain.policy import EngineOptions, Policy, PolicyId, PolicyName, State
from rollout_service.domain.ports import Ports
from rollout_service.domain.room import Room
from rollout_service.domain.weights import WeightStream, WeightUpdate, WeightUpdateResult

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """A request to load a policy."""

    request_id: str
    name: PolicyName
    source: str
    options: EngineOptions = field(default_factory=EngineOptions)
    expected_policy_id: PolicyId | None = None
    purpose: Purpose = Purpose.SERVING

    @property
    def request(self) -> Request:
        return Request.of(self.request_id, self.name, self.source, self.options, self.expected_policy_id, self.purpose)


EVICT_IDLE = timedelta(minutes=1)
"""A policy for serving that was unused for longer gives its place to another for serving. One for training or
evaluation has an owner, who unloads it."""


class Policies:
    """All policies of this node. A context manager: at its end no engine is left."""

    def __init__(
        self,
        ports: Ports,
        limits: RestartLimits,
        room: Room,
        devices: Devices = Devices(),
    ) -> None:
        self._ports = ports
        self._devices = devices
        self._limits = limits
        self._room = room
        self._draining = False
        self._hosts: dict[PolicyName, PolicyHost] = {}
        self._loading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hosts = list(self._hosts.values())
        self._hosts.clear()
        await asyncio.gather(*(host.stop() for host in hosts))

    async def recover(self) -> None:
        """Reloads the policies of a service that was killed, with the weights they had last. Call it first."""
        kept = await self._ports.journal.kept()
        await self._ports.folders.retain([one.folder for one in kept])
        for one in kept:
            try:
                devices = self._place(one.policy.options)  # there may be other GPUs than there were
            except (InvalidArgument, ResourceExhausted) as error:
                log.error("policy.not_recovered", policy=one.policy.name, reason=error.message)
                await self._ports.journal.forget(one.policy.name)
                continue
            self._start(replace(one.policy.restarting("the service was killed"), devices=devices), one.folder)
            log.warning("policy.recovered", policy=one.policy.name, policy_id=one.policy.policy_id)

    def drain(self, draining: bool) -> None:
        """From now on nothing new is taken, and what is under way ends; or it is taken again."""
        self._draining = draining
        self._ports.meter.drained(draining)
        log.warning("node.drain", draining=draining, sequences=self.node().sequences)

    def node(self) -> Node:
        """What this node holds, and how busy it is."""
        held = self._held()
        purposes = [policy.purpose for policy in held]
        return Node(
            state=NodeState.DRAINING if self._draining else NodeState.SERVING,
            capacity=self._room.capacity,
            engines=tuple(_engine(self._hosts[name]) for name in sorted(self._hosts)),
            free={purpose: self._room.free(purposes, purpose) for purpose in Purpose},
            devices=self._devices.ids,
            gpu_memory=self._devices.gpu_memory,
            detail="; ".join(
                f"{policy.name} is being started again: {policy.restart_reason}"
                for policy in held
                if policy.restart_reason
            ),
        )

    async def load(self, request: LoadPolicy) -> Policy:
        """Starts to load and returns the policy in state LOADING. A repeated request id returns the existing policy.

        A FAILED policy of this name is replaced. Raises AlreadyExists when the name is taken by something else or the
        request id was used for another request, ResourceExhausted when the node or its GPUs are full, InvalidArgument
        when the source cannot be a model, or wants more GPUs than there are, Unavailable while it is drained.
        """
        self._require_work()
        await self._ports.folders.check(request.source)
        async with self._loading:
            return self._made_by(request.request) or await self._load(request)

    def _made_by(self, request: Request) -> Policy | None:
        for host in self._hosts.values():
            if host.policy.request.id == request.id:
                request.check_same(host.policy.request.fingerprint, "policy")
                return host.policy
        return None

    async def _load(self, request: LoadPolicy) -> Policy:
        present = self._hosts.get(request.name)
        if present is not None:
            if _is_shared(present.policy, request):
                present.touch()
                return present.policy
            if present.policy.state is not State.FAILED:
                raise AlreadyExists(
                    f"policy {request.name} is {present.policy.state} from {present.policy.source}; unload it first"
                )
            await self.unload(request.name)
        devices = await self._make_room(request)
        policy = Policy(
            name=request.name,
            source=request.source,
            request=request.request,
            create_time=self._ports.clock.now(),
            options=request.options,
            expected_policy_id=request.expected_policy_id,
            devices=devices,
            purpose=request.purpose,
        )
        host = self._start(policy, request.source)
        log.info("policy.loading", policy=request.name, source=request.source, devices=policy.devices)
        return host.policy

    def get(self, name: PolicyName) -> Policy:
        """Raises NotFound."""
        return self._host(name).seen

    def names(self) -> frozenset[PolicyName]:
        """Of all policies that there are."""
        return frozenset(policy.name for policy in self._held())

    async def page(self, size: int, token: str) -> Page[Policy]:
        """Policies, sorted by name. Raises InvalidArgument for a wrong page size or token."""

        async def after(limit: int, name: str | None) -> list[Policy]:
            following = [present for present in sorted(self._hosts) if name is None or present > name]
            return [self._hosts[present].seen for present in following[:limit]]

        return await fetch_page(after, lambda policy: policy.name, str, size, token)

    async def unload(self, name: PolicyName) -> None:
        """Returns when no process of the policy is left.

        Raises NotFound.
        """
        host = self._host(name)
        await host.stop()
        if self._hosts.get(name) is host:
            del self._hosts[name]
            self._ports.meter.unloaded(name)
        log.info("policy.unloaded", policy=name)

    async def sleep(self, name: PolicyName) -> None:
        """See `PolicyHost.sleep`. Raises NotFound too."""
        await self._host(name).sleep()

    async def settled(self, name: PolicyName) -> Policy:
        """See `PolicyHost.settled`. Raises NotFound too."""
        return await self._host(name).settled()

    async def generate(
        self, name: PolicyName, request: GenerationRequest, expected: PolicyId | None = None
    ) -> Generation:
        """See `PolicyHost.generate`. Raises NotFound too, and Unavailable while this node is drained."""
        self._require_work()
        return await self._host(name).generate(request, expected)

    async def stream(
        self, name: PolicyName, request: GenerationRequest, expected: PolicyId | None = None
    ) -> AsyncGenerator[tuple[EngineOutput, PolicyId], None]:
        """See `PolicyHost.stream`. Raises NotFound too, and Unavailable while this node is drained."""
        self._require_work()
        async with aclosing(self._host(name).stream(request, expected)) as outputs:
            async for output in outputs:
                yield output

    async def update(self, update: WeightUpdate, weights: WeightStream) -> WeightUpdateResult:
        """See `PolicyHost.update`. Raises NotFound too, and Unavailable while this node is drained."""
        self._require_work()
        return await self._host(update.policy).update(update, weights)

    def _start(self, policy: Policy, source: str) -> PolicyHost:
        host = PolicyHost(policy, source, self._ports, self._limits)
        self._hosts[policy.name] = host
        host.start()
        return host

    def _host(self, name: PolicyName) -> PolicyHost:
        host = self._hosts.get(name)
        if host is None:
            raise NotFound(f"policy {name} is not loaded")
        return host

    def _require_work(self) -> None:
        if self._draining:
            raise Unavailable("this rollout node is drained: it takes nothing new")

    async def _make_room(self, request: LoadPolicy) -> tuple[str, ...]:
        """The GPUs of one more policy; those for serving that are idle make room for another."""
        while True:
            try:
                self._room.require((policy.purpose for policy in self._held()), request.purpose)
                return self._place(request.options)
            except ResourceExhausted:
                idle = self._idle_longest() if request.purpose is Purpose.SERVING else None
                if idle is None:
                    raise
            log.info("policy.evicted", policy=idle, for_policy=request.name)
            self._ports.meter.evicted(idle)
            await self.unload(idle)

    def _idle_longest(self) -> PolicyName | None:
        limit = self._ports.clock.now() - EVICT_IDLE
        idle = [
            host
            for host in self._hosts.values()
            if host.policy.purpose is Purpose.SERVING
            and host.policy.state in (State.READY, State.LOADING)
            and host.used < limit
            and not host.sequences
        ]
        return min(idle, key=lambda host: host.used).policy.name if idle else None

    def _place(self, options: EngineOptions) -> tuple[str, ...]:
        return self._devices.place([policy.devices for policy in self._held()], options.tensor_parallel_size)

    def _held(self) -> list[Policy]:
        """Those that have an engine, or will have one."""
        return [host.policy for host in self._hosts.values() if host.policy.state is not State.FAILED]


def _engine(host: PolicyHost) -> Engine:
    policy = host.policy
    state = PolicyState(policy.state)
    tokens, library = (policy.engine.kv_cache_tokens, policy.engine.library) if policy.engine else (0, "")
    return Engine(policy.name, state, policy.policy_id or "", policy.purpose, host.sequences, tokens, library)


def _is_shared(policy: Policy, request: LoadPolicy) -> bool:
    """Whether another request may use the policy, too: it is the same model, not updated since it was loaded."""
    return (
        policy.state in (State.LOADING, State.READY)
        and policy.weight_updates == 0
        and (policy.source, policy.options) == (request.source, request.options)
        and request.expected_policy_id in (None, policy.policy_id, policy.expected_policy_id)
    )
