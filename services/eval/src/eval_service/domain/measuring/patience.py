"""Patience with the platform: a fault of it is waited out, and never counts as a wrong answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from eval_service.domain.ports import Meter
from ratchet_environments import Environment, Episode, Task
from ratchet_kit.errors import Aborted, RatchetError, ResourceExhausted, Unavailable
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock

T = TypeVar("T")

WORTH_A_RETRY = tuple(kind for kind in OUTSIDE if kind is not Aborted)
"""Aborted is for who lost the evaluation to another worker."""


class OutOfPatience(Unavailable):
    """The platform was at fault for as long as an evaluation may wait for it."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long the platform may be at fault before an evaluation fails for it."""

    without_progress: timedelta = timedelta(minutes=15)
    """Without a single new sample."""
    for_room: timedelta = timedelta(minutes=30)
    """Until rollout-service has room for the policy."""
    pause: timedelta = timedelta(seconds=2)
    """Between two attempts."""
    losses: int = 3
    """How often the policy may get lost, and be loaded anew, without a single new sample."""


class Patience:
    """Counts, for one attempt, since when there has been no new sample."""

    def __init__(
        self, deadlines: Deadlines, meter: Meter, clock: Clock, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self.deadlines = deadlines
        self._meter = meter
        self._clock = clock
        self._sleep = sleep
        self._last = clock.now()

    def made(self) -> None:
        """There is a new sample."""
        self._last = self._clock.now()

    def idle(self) -> timedelta:
        return self._clock.now() - self._last

    async def insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Tries again while the platform is at fault, as long as samples are made now and then."""
        while True:
            try:
                return await attempt()
            except WORTH_A_RETRY as error:
                idle = self.idle()
                if idle >= self.deadlines.without_progress:
                    raise OutOfPatience(
                        f"not one sample could be made for {idle.total_seconds():.0f} s: {error.message}"
                    ) from error
                await self.pause(error)

    async def pause(self, error: RatchetError) -> None:
        """Before the next attempt."""
        self._meter.retried(type(error).__name__)
        hint = error.retry_after if isinstance(error, ResourceExhausted) else None
        await self._sleep(max(hint or timedelta(), self.deadlines.pause).total_seconds())


class PatientEnvironment:
    """An Environment whose faults are waited out."""

    def __init__(self, environment: Environment, patience: Patience) -> None:
        self._environment = environment
        self.patience = patience

    async def start(self, task: Task) -> Episode:
        return await self.patience.insist(lambda: self._environment.start(task))

    async def step(self, episode: Episode, answer: str) -> Episode:
        return await self.patience.insist(lambda: self._environment.step(episode, answer))
