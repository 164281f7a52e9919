"""The policies that the service holds: loaded, addressed by name, unloaded; so many and no more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Self

from ratchet_kit.errors import AlreadyExists, NotFound, ResourceExhausted
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from rollout_service.domain.generation import EngineOutput, Generation, GenerationRequest
from rollout_service.domain.host import PolicyHost, Surroundings
from rollout_service.domain.policy import EngineOptions, Policy, PolicyId, PolicyName, State
from rollout_service.domain.weights import WeightStream, WeightUpdate, WeightUpdateResult

log = get_logger(__name__)

CAPACITY_RETRY = timedelta(seconds=30)


@dataclass(frozen=True)
class LoadPolicy:
    """The wish to have a policy loaded."""

    request_id: str
    name: PolicyName
    source: str
    options: EngineOptions = field(default_factory=EngineOptions)
    expected_policy_id: PolicyId | None = None


class Policies:
    """All policies of this service. Used as a context, it leaves no engine behind."""

    def __init__(self, surroundings: Surroundings, capacity: int) -> None:
        self._surroundings = surroundings
        self._folders = surroundings.folders
        self._clock = surroundings.clock
        self._capacity = capacity
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
        """Loads again, with the weights they had, the policies of a service that was killed. Call it first."""
        kept = await self._surroundings.journal.kept()
        await self._folders.retain([one.folder for one in kept])
        for one in kept:
            self._begin(one.policy.restarting("the service was killed"), one.folder)
            log.warning("policy recovered", policy=one.policy.name, policy_id=one.policy.policy_id)

    async def load(self, wish: LoadPolicy) -> Policy:
        """Begins to load, and returns the policy while it is LOADING; the same request id again returns what is there.

        A FAILED policy of the name makes way. Raises AlreadyExists when the name holds something else,
        ResourceExhausted when the service is full, InvalidArgument when the source cannot be a model.
        """
        await self._folders.check(wish.source)
        async with self._loading:
            return await self._load(wish)

    async def _load(self, wish: LoadPolicy) -> Policy:
        present = self._hosts.get(wish.name)
        if present is not None:
            if _same(present.policy, wish):
                return present.policy
            if present.policy.state is not State.FAILED:
                raise AlreadyExists(
                    f"policy {wish.name} is {present.policy.state.value} from {present.policy.source}"
                    f" (request {present.policy.request_id}); unload it first"
                )
            await self.unload(wish.name)
        self._require_room()
        policy = Policy(
            name=wish.name,
            source=wish.source,
            request_id=wish.request_id,
            created=self._clock.now(),
            options=wish.options,
            expected_policy_id=wish.expected_policy_id,
        )
        host = self._begin(policy, wish.source)
        log.info("policy loading", policy=wish.name, source=wish.source)
        return host.policy

    def get(self, name: PolicyName) -> Policy:
        """Raises NotFound."""
        return self._host(name).policy

    async def page(self, size: int, token: str) -> Page[Policy]:
        """Policies by name. Raises InvalidArgument for a size or token that no list gave."""

        async def after(limit: int, name: str | None) -> list[Policy]:
            following = [present for present in sorted(self._hosts) if name is None or present > name]
            return [self._hosts[present].policy for present in following[:limit]]

        return await fetch_page(after, lambda policy: policy.name, str, size, token)

    async def unload(self, name: PolicyName) -> None:
        """Returns when no process of the policy is left. Raises NotFound."""
        host = self._host(name)
        await host.stop()
        if self._hosts.get(name) is host:
            del self._hosts[name]
        log.info("policy unloaded", policy=name)

    async def settled(self, name: PolicyName) -> Policy:
        """Waits until the first load of the policy ended, well or not. Raises NotFound."""
        return await self._host(name).settled()

    async def generate(
        self, name: PolicyName, request: GenerationRequest, expected: PolicyId | None = None
    ) -> Generation:
        """See `PolicyHost.generate`. Raises NotFound too."""
        return await self._host(name).generate(request, expected)

    async def stream(
        self, name: PolicyName, request: GenerationRequest, expected: PolicyId | None = None
    ) -> AsyncGenerator[tuple[EngineOutput, PolicyId], None]:
        """See `PolicyHost.stream`. Raises NotFound too."""
        async with aclosing(self._host(name).stream(request, expected)) as outputs:
            async for output in outputs:
                yield output

    async def update(self, update: WeightUpdate, weights: WeightStream) -> WeightUpdateResult:
        """See `PolicyHost.update`. Raises NotFound too."""
        return await self._host(update.policy).update(update, weights)

    def _begin(self, policy: Policy, folder: str) -> PolicyHost:
        host = PolicyHost(policy, folder, self._surroundings)
        self._hosts[policy.name] = host
        host.start()
        return host

    def _host(self, name: PolicyName) -> PolicyHost:
        host = self._hosts.get(name)
        if host is None:
            raise NotFound(f"policy {name} is not loaded")
        return host

    def _require_room(self) -> None:
        taken = sum(host.policy.state is not State.FAILED for host in self._hosts.values())
        if taken >= self._capacity:
            raise ResourceExhausted(
                f"{taken} policies are loaded, as many as this service may hold; unload one first",
                retry_after=CAPACITY_RETRY,
            )


def _same(policy: Policy, wish: LoadPolicy) -> bool:
    """Whether the wish is already met: the same request again, or the same model that was not updated since."""
    if wish.request_id and policy.request_id == wish.request_id:
        return policy.source == wish.source
    return (
        policy.state in (State.LOADING, State.READY)
        and policy.weight_updates == 0
        and (policy.source, policy.options) == (wish.source, wish.options)
        and wish.expected_policy_id in (None, policy.policy_id, policy.expected_policy_id)
    )
