"""Champions: the one before each, and their loading when a gateway starts."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.ports import CompletionLog
from ratchet_kit.errors import RatchetError
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import every

LATELY = timedelta(days=1)
"""Models that were asked since then are loaded at the start, so that a gateway fills no node with what nobody asks."""
PATIENCE = timedelta(minutes=10)
"""For a rollout node that starts, too, or has no room yet."""
LOOK_EVERY = timedelta(seconds=1)


def champion_before(numbers: Sequence[int]) -> int | None:
    """`numbers`: versions in the order in which they became a model's champion. A return to an earlier one undoes those
    after it: they proved worse, and answer nobody again."""
    reigns: list[int] = []
    for number in numbers:
        reigns = reigns[: reigns.index(number)] if number in reigns else reigns
        reigns.append(number)
    return reigns[-2] if len(reigns) > 1 else None


class StartLoads:
    """Loads the champions of the models that were asked lately, once. `Serving.keep` adds their replicas."""

    def __init__(self, log: CompletionLog, models: KnownModels, serving: Serving, clock: Clock) -> None:
        self._log = log
        self._models = models
        self._serving = serving
        self._clock = clock
        self._end_time = clock.now() + PATIENCE
        self._left: set[str] | None = None
        """Names of models; None before they were read."""

    async def run(self, stop: asyncio.Event) -> None:
        await every(LOOK_EVERY, stop, self.load, name="load champions")

    async def load(self) -> None:
        """One look at each that is not loaded yet. Raises Unavailable while nobody can say which were asked."""
        now = self._clock.now()
        if self._left is None:
            self._left = set(await self._log.busy_models(now - LATELY))
        for name in sorted(self._left):
            if now > self._end_time or await self._is_done(name):
                self._left.discard(name)

    async def _is_done(self, name: str) -> bool:
        try:
            champion = (await self._models.find(name)).champion
            if champion is not None:
                await self._serving.ensure(champion, wait=timedelta(0))
        except OUTSIDE:
            return False
        except RatchetError:
            pass  # it cannot be loaded: Serving logs why
        return True
