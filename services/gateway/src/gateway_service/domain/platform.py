"""The services of the platform, as this gateway sees them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from ratchet_kit.errors import RatchetError
from ratchet_kit.pages import Page, fetch_page
from ratchet_policies import Node


class State(StrEnum):
    SERVING = "serving"
    NOT_SERVING = "not_serving"
    """It answers, and says that it cannot work now."""
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Health:
    state: State
    latency: timedelta | None = None
    """None of one that is away, of rollout, which is many nodes, and of the gateway itself."""
    detail: str = ""
    """Of one that does not serve: one sentence."""


class HealthCheck(Protocol):
    """Asks one service."""

    async def check(self) -> Health:
        """Raises nothing: a service that does not answer in time is AWAY."""
        ...


class RolloutNodes(Protocol):
    """The nodes that hold policies."""

    def nodes(self) -> Sequence[Node]:
        """By address, as they were seen last."""
        ...

    async def drain(self, address: str, draining: bool) -> Node:
        """From now on the node takes nothing new; or takes it again. Raises NotFound, Unavailable."""
        ...


class Platform:
    def __init__(
        self, peers: Mapping[str, HealthCheck], nodes: RolloutNodes, check_ready: Callable[[], Awaitable[None]]
    ) -> None:
        """`peers`: by the names of their services. `check_ready` raises while the gateway itself cannot work."""
        self._peers = peers
        self._nodes = nodes
        self._check_ready = check_ready

    async def nodes(self, size: int, token: str) -> Page[Node]:
        """By address, as they were seen last. Raises InvalidArgument for a wrong page size or token."""

        async def after(limit: int, address: str | None) -> list[Node]:
            return [node for node in self._nodes.nodes() if address is None or node.address > address][:limit]

        return await fetch_page(after, lambda node: node.address, str, size, token)

    async def drain(self, address: str, draining: bool) -> Node:
        """See `RolloutNodes`."""
        return await self._nodes.drain(address, draining)

    async def health(self) -> Sequence[tuple[str, Health]]:
        """Of each service by its name, the gateway first."""
        found = await asyncio.gather(self._own(), *(peer.check() for peer in self._peers.values()))
        return list(zip(["gateway", *self._peers], found, strict=True))

    async def _own(self) -> Health:
        try:
            await self._check_ready()
        except RatchetError as error:
            return Health(State.NOT_SERVING, detail=error.message)
        return Health(State.SERVING)
