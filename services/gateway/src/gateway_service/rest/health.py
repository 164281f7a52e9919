"""Whether the gateway lives, and whether it can answer: for probes, which have no key."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from fastapi import APIRouter

from ratchet_kit.times import Clock

LOOK = timedelta(seconds=1)


class Readiness:
    """`check`, once a second at most: whoever may ask without a key may ask often."""

    def __init__(self, check: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._look: asyncio.Future[None] | None = None
        self._looked: datetime | None = None

    async def check(self) -> None:
        """Raises what the last look raised."""
        if self._look is None or self._looked is None or self._is_old(self._look, self._looked):
            self._looked = self._clock.now()
            self._look = asyncio.ensure_future(self._check())
        await asyncio.shield(self._look)

    def _is_old(self, look: "asyncio.Future[None]", looked: datetime) -> bool:
        return look.done() and self._clock.now() - looked >= LOOK


def build(readiness: Readiness) -> APIRouter:
    api = APIRouter(tags=["health"])

    @api.head("/healthz", include_in_schema=False)
    @api.get("/healthz")
    async def alive() -> dict[str, str]:
        return {"state": "alive"}

    @api.head("/readyz", include_in_schema=False)
    @api.get("/readyz")
    async def ready() -> dict[str, str]:
        await readiness.check()
        return {"state": "ready"}

    return api
