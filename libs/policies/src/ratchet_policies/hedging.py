"""A second engine for a request whose first one is slow; whoever answers first is heard (Dean and Barroso, The Tail at
Scale, 2013). Only generations: they change nothing, and the caller gets one answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ratchet_kit import metrics
from ratchet_kit.errors import RatchetError
from ratchet_policies.member import Member
from ratchet_policies.route import AGAIN, Route

T = TypeVar("T")

_MOST_SAVED = 10
"""Requests that may be hedged at once after a time in which none had to be."""

_hedged = metrics.counter(
    "rollout_requests_hedged", "Generations asked of a second engine, by the one that was heard.", ("heard",)
)


@dataclass(frozen=True, slots=True)
class Hedging:
    """When a second engine is asked."""

    after: timedelta
    """Without a first piece of a stream, or without the answer of what is not streamed."""
    share: float = 0.05
    """Largest share of all requests."""


class Hedges:
    """Asks second engines, as far as their share goes."""

    def __init__(self, hedging: Hedging | None) -> None:
        self._hedging = hedging
        self._saved = 0.0

    async def ask(
        self,
        route: Route,
        member: Member,
        call: Callable[[Member], Coroutine[Any, Any, T]],
        discard: Callable[[T], Awaitable[None]],
    ) -> T:
        """The answer of `call` on `member`, or on another that the route has ready. The second one is cancelled, or
        discarded where it came at the same time. Raises what the last of those that were asked raises."""
        if self._hedging is None:
            return await call(member)
        self._saved = min(_MOST_SAVED, self._saved + self._hedging.share)
        first = asyncio.create_task(call(member))
        late = {first}
        try:
            await asyncio.wait(late, timeout=self._hedging.after.total_seconds())
            if first.done() or self._saved < 1 or (other := route.another()) is None:
                await asyncio.wait(late)
                heard = first
            else:
                self._saved -= 1
                late.add(asyncio.create_task(call(other)))
                heard = await _heard(late, route)
                _hedged.labels("first" if heard is first else "second").inc()
            late.discard(heard)
            return heard.result()
        finally:
            for task in late:
                task.cancel()
            for answer in await asyncio.gather(*late, return_exceptions=True):
                if not isinstance(answer, BaseException):
                    await discard(answer)


async def _heard(tasks: set["asyncio.Task[T]"], route: Route) -> "asyncio.Task[T]":
    """The first that answers, or fails as every engine would; where all fail otherwise, the last of them."""
    failed: asyncio.Task[T] | None = None
    earlier: RatchetError | None = None
    waiting = tasks
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = task.exception()
            if not isinstance(error, AGAIN):
                return task
            if earlier is not None:
                route.failed(earlier)
            failed, earlier = task, error
    assert failed is not None, "there is one task or more"
    return failed
