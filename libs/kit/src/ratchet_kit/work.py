"""Long work that a service owns: SQL holds it, a queue carries its ids, workers do it.

A use case stores the thing and calls `enqueue`; `ratchet_kit.worker.Worker` does the rest. A service brings `Work`: its
own store, and what is to be done. `every` is the loop of whatever else is done at an interval.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, Self, TypeVar, cast

from ratchet_kit import metrics
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound, RatchetError
from ratchet_kit.logs import get_logger

log = get_logger(__name__)
_survived = metrics.counter("background_faults", "Faults that background work has survived, by task", ("work",))

ENQUEUE_LIMIT = timedelta(seconds=5)
LEFT_ALONE = (NotFound, FailedPrecondition, Aborted)
"""What a store raises when there is nothing to do for a worker: deleted, over, cancelled, or held by another."""


class Priority(StrEnum):
    """What is HIGH is taken before what is NORMAL, and that before LOW."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Queue(Protocol):
    """Where ids wait for a worker."""

    async def publish(self, id: str, priority: Priority = Priority.NORMAL) -> None:
        """Adds an id. One that is there twice is worked on once. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """An id that was taken off a queue and is leased to this consumer."""

    id: str
    priority: Priority
    receipt: object
    """What the queue knows this delivery by."""
    times: int = 1
    """How often it was given out, this time included."""


class WorkQueue(Queue, Protocol):
    """A queue as a worker sees it. Every method raises Unavailable."""

    async def resume(self) -> Sequence[Delivery]:
        """What an earlier process of this consumer's name took and never acknowledged: asked once, at the start."""
        ...

    async def take(self, block: timedelta) -> Delivery | None:
        """The next id; None when there was none for `block`."""
        ...

    async def extend(self, delivery: Delivery) -> None:
        """Renews the lease. Raises Aborted when the delivery is another's by now, or gone."""
        ...

    async def ack(self, delivery: Delivery) -> None:
        """Its effect is stored: it is not given out again."""
        ...

    async def dead_letter(self, delivery: Delivery, reason: str) -> None:
        """It cannot be done: it is kept aside, with the reason."""
        ...

    async def held(self) -> frozenset[str]:
        """The ids that wait or are leased to some consumer."""
        ...


class Attempted(Protocol):
    """What a claim gives: the thing, with how often a worker has begun it, this time included."""

    @property
    def attempts(self) -> int: ...


C = TypeVar("C", bound=Attempted)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hold:
    """Which worker has a thing, until when, and how often one has begun it. A worker that lives renews it.

    `what` names the thing in what is raised: Aborted, when it is with another worker.
    """

    owner: str = ""
    """Empty: nobody has it."""
    until: datetime | None = None
    attempts: int = 0

    def is_free(self, now: datetime, owner: str = "") -> bool:
        """Whether `owner` may have it: it is nobody's, its own already, or of a worker that died."""
        return self.owner in ("", owner) or self.until is None or self.until <= now

    def claim(self, what: str, owner: str, now: datetime, lease: timedelta) -> "Hold":
        if not self.is_free(now, owner):
            raise Aborted(f"{what} is with {self.owner}")
        return Hold(owner, now + lease, self.attempts + 1)

    def renew(self, what: str, owner: str, now: datetime, lease: timedelta) -> "Hold":
        self.check(what, owner)
        return Hold(owner, now + lease, self.attempts)

    def release(self, what: str, owner: str, *, attempted: bool) -> "Hold":
        """For anyone to claim. `attempted` is false where the worker only had no time left for it."""
        self.check(what, owner)
        return Hold(attempts=self.attempts - (not attempted))

    def check(self, what: str, owner: str) -> None:
        """Raises Aborted unless it is with `owner`."""
        if self.owner != owner:
            raise Aborted(f"{what} is no longer with {owner}")


FREE: Final = Hold()
"""Nobody's, and never begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A frozen value that one worker at a time has. Each transition gives the new value, and raises FailedPrecondition
    where no worker may have it any more, Aborted where `owner` does not have it."""

    hold: Hold = FREE

    @property
    def label(self) -> str:
        """Its kind and name, for what is raised: "gate gate_1"."""
        raise NotImplementedError

    def check_open(self) -> None:
        """Raises FailedPrecondition where no worker may have it any more."""

    @property
    def attempts(self) -> int:
        """How often a worker has begun it."""
        return self.hold.attempts

    def claim(self, owner: str, now: datetime, lease: timedelta) -> Self:
        """Gives it to a worker. Raises Aborted while another living one has it."""
        self.check_open()
        return replace(self, hold=self.hold.claim(self.label, owner, now, lease))

    def renew(self, owner: str, now: datetime, lease: timedelta) -> Self:
        self.check_open()
        return replace(self, hold=self.hold.renew(self.label, owner, now, lease))

    def release(self, owner: str, *, attempted: bool) -> Self:
        """For any worker to claim. `attempted` is false where this one only had no time left for it."""
        self.check_open()
        return replace(self, hold=self.hold.release(self.label, owner, attempted=attempted))

    def check_held(self, owner: str) -> None:
        """Raises like the transitions."""
        self.check_open()
        self.hold.check(self.label, owner)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thing in the store that some worker may claim now."""

    id: str
    create_time: datetime
    priority: Priority = Priority.NORMAL


class Work(Protocol[C]):
    """One kind of work, as its service knows it. The service decides under which name it is held, and for how long.

    Any method may raise Unavailable, and all but `waiting` one of LEFT_ALONE.
    """

    @property
    def kind(self) -> str:
        """For logs: "evaluation" binds `evaluation_id`."""
        ...

    async def claim(self, id: str) -> C:
        """Holds the thing for this worker and counts the attempt. Raises one of LEFT_ALONE when it is not to be had."""
        ...

    async def renew(self, claim: C) -> None:
        """Renews the hold. Raises one of LEFT_ALONE when the work is to stop: it was cancelled, or is another's."""
        ...

    async def release(self, claim: C, *, attempted: bool) -> None:
        """Gives it back. `attempted` is false where this worker only had no time left for it."""
        ...

    async def do(self, claim: C) -> None:
        """Does the work; when this returns, what came of it is stored, be it success or failure.

        Raises Unavailable when a part of the platform was away: it is tried again; one of LEFT_ALONE when the thing is
        no longer this worker's. Any other error is final, and goes to `fail`. It may be cancelled.
        """
        ...

    async def fail(self, claim: C, error: RatchetError) -> None:
        """Stores that it is over: it could not be done, or its workers died too often. See `errors.Failure.of`."""
        ...

    async def waiting(self) -> Sequence[Waiting]:
        """What is unfinished and not held by a living worker."""
        ...


async def enqueue(queue: Queue, id: str, priority: Priority = Priority.NORMAL) -> None:
    """Publishes what was stored. A queue that is away is no error, and not waited for: a worker publishes it later."""
    with surviving("enqueue", id=id):
        async with asyncio.timeout(ENQUEUE_LIMIT.total_seconds()):
            await queue.publish(id, priority)


def surviving(name: str, **about: object) -> AbstractContextManager[None, bool]:
    """Whatever is raised inside is logged with `about`, counted, and goes no further: for a loop that has to go on, and
    for one record among others. `name` is of the work: a few in all, for the metric."""
    return cast(AbstractContextManager[None, bool], _surviving(name, about))  # mypy: that it may end what is raised


@contextmanager
def _surviving(name: str, about: Mapping[str, object]) -> Iterator[None]:
    try:
        yield
    except RatchetError as error:
        log.warning("step.failed", step=name, reason=error.message, **about)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        log.warning("step.failed", step=name, reason="what it waited for was cancelled", **about)
    except TimeoutError:
        log.warning("step.failed", step=name, reason="it took too long", **about)
    except Exception:
        log.exception("step.broken", step=name, **about)
    else:
        return
    _survived.labels(name).inc()


async def every(
    interval: timedelta, stop: asyncio.Event, step: Callable[[], Awaitable[object]], *, name: str = ""
) -> None:
    """Runs `step` now and then `interval` after each end of it, until `stop` is set.

    Whatever a step raises, it is tried again at its next time: see `surviving`.
    """
    while not stop.is_set():
        with surviving(name or getattr(step, "__qualname__", type(step).__name__)):
            await step()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), interval.total_seconds())


async def watch(
    read: Callable[[], Awaitable[T]],
    is_over: Callable[[T], bool],
    *,
    key: Callable[[T], object] = lambda value: value,
    interval: timedelta = timedelta(milliseconds=500),
) -> AsyncIterator[T]:
    """What `read` gives, then each later value whose `key` differs from the one before, up to one that is over."""
    seen: object = None
    while True:
        value = await read()
        if key(value) != seen:
            seen = key(value)
            yield value
        if is_over(value):
            return
        await asyncio.sleep(interval.total_seconds())
