"""Admission of programs: a bounded, fair queue. It says who may hand in a program, and whose turn it is."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from ratchet_kit.errors import RatchetError, ResourceExhausted, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.work import Priority
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.ports import Meter
from sandbox_service.domain.program import Program
from sandbox_service.domain.queue import Entry, FairQueue

log = get_logger(__name__)
_ASIDE = 4
"""For each lane, programs whose answers are judged elsewhere while others run."""
_FIRST_TIME, _TIMES_MORE = 0.25, 4
"""An answer about held-out tests comes 0.25 s, 1 s, 4 s or 16 s after the start, so that its time reveals no more than
which of these it was."""

Grade = Callable[[Program, timedelta, str], Awaitable[Execution]]
"""Runs one program, given how long it has waited and who asks. Raises Unavailable when the platform failed."""
Done = Callable[[Execution | RatchetError], None]
"""Called once with the outcome of a program, unless the program is withdrawn."""


@dataclass(frozen=True, slots=True)
class Load:
    programs: int = 0
    bytes: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.programs + other.programs, self.bytes + other.bytes)

    def __mul__(self, times: int) -> "Load":
        return Load(self.programs * times, self.bytes * times)

    def within(self, limit: "Load") -> bool:
        return self.programs <= limit.programs and self.bytes <= limit.bytes


@dataclass(eq=False, slots=True)
class Work:
    """An admitted program. Mutable: its task and its outcome come later."""

    program: Program
    size: int
    """Bytes: see Program."""
    done: Done
    since: float
    begun: float = 0.0
    task: asyncio.Task[None] | None = None
    outcome: Execution | RatchetError | None = None

    @property
    def load(self) -> Load:
        return Load(1, self.size)


Ticket = Entry[Work]
"""An admitted program's place in the queue. `Admission.withdraw` takes it."""


class Admission:
    def __init__(self, grade: Grade, lanes: int, limit: int, most_bytes: int, meter: Meter) -> None:
        """`limit`: programs admitted at a time, running ones included, and of `most_bytes` together. `lanes`: programs
        that run at a time."""
        self._grade = grade
        self._lanes = lanes
        self._limit = Load(limit, most_bytes)
        self._meter = meter
        self._queue: FairQueue[Work] = FairQueue()
        # One beyond the lanes, so that none waits while a result is being judged.
        self._free = lanes + 1
        self._aside = 0
        self._held: defaultdict[str, Load] = defaultdict(Load)
        self._admitted = Load()
        self._room = asyncio.Event()
        self._mean_seconds = 0.01

    def demand_room(self, programs: Sequence[Program], caller: str) -> None:
        """Raises ResourceExhausted when the queue has no room for these programs of this caller."""
        more = sum((Load(1, program.size) for program in programs), Load())
        if not self._has_room(more, caller):
            self._meter.refused()
            wait = self._admitted.programs * self._mean_seconds / max(1, self._lanes)
            held, most = self._admitted, self._limit
            full = f"{held.programs} of {most.programs} programs: no room for {more.programs} more"
            if held.programs + more.programs <= most.programs:
                full = f"{held.bytes >> 20} of {most.bytes >> 20} MiB: no room for {-(-more.bytes >> 20)} MiB more"
            raise ResourceExhausted(
                f"the queue holds {full}",
                retry_after=timedelta(seconds=max(0.1, wait)),
            )

    def _has_room(self, more: Load, caller: str) -> bool:
        """A caller that holds less than its share is let in even if others have filled the queue."""
        whole = self._admitted + more
        if whole.within(self._limit) or not self._admitted.programs:
            return True
        others = len(self._held) - (caller in self._held)
        held = self._held.get(caller, Load()) + more
        return others > 0 and (held * (others + 1)).within(self._limit) and whole.within(self._limit * 2)

    async def wait_for_room(self, more: Load, caller: str) -> None:
        """Until there is room for so much more of this caller."""
        while not self._has_room(more, caller):
            await self._room.wait()

    def submit(self, program: Program, done: Done, caller: str, priority: Priority) -> Ticket:
        work = Work(program, program.size, done, time.monotonic())
        ticket = Entry(work, caller, priority)
        self._admitted += work.load
        self._held[caller] += work.load
        self._queue.put(ticket)
        self._start_next()
        if ticket.content.task is None:
            self._meter.queued(priority, self._queue.length(priority))
        return ticket

    async def withdraw(self, tickets: Sequence[Ticket]) -> None:
        """Removes what waits from the queue and kills what runs; returns when it is gone."""
        running: list[asyncio.Task[None]] = []
        for ticket in tickets:
            ticket.content.done = _ignore
            if (task := ticket.content.task) is not None:
                task.cancel()
                running.append(task)
            else:
                self._queue.remove(ticket)
                self._release(ticket)
        for priority in {ticket.priority for ticket in tickets}:
            self._meter.queued(priority, self._queue.length(priority))
        if running:
            await asyncio.wait(running)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While a program that has had its turn is judged elsewhere, another has one: as many as fit in memory."""
        if self._aside >= _ASIDE * self._lanes:
            yield
            return
        self._aside += 1
        self._free += 1
        self._start_next()
        try:
            yield
        finally:
            self._aside -= 1
            self._free -= 1

    def _start_next(self) -> None:
        while self._free > 0 and len(self._queue):
            ticket = self._queue.take()
            self._free -= 1
            ticket.content.task = asyncio.create_task(self._serve(ticket.content, ticket.caller))
            # By a callback: a task that is cancelled before its first step runs nothing of its own.
            ticket.content.task.add_done_callback(partial(self._ended, ticket))
            self._meter.queued(ticket.priority, self._queue.length(ticket.priority))

    def _release(self, ticket: Ticket) -> None:
        self._admitted += ticket.content.load * -1
        self._held[ticket.caller] += ticket.content.load * -1
        if not self._held[ticket.caller].programs:
            del self._held[ticket.caller]
        self._room.set()
        self._room.clear()

    def _ended(self, ticket: Ticket, _task: asyncio.Task[None]) -> None:
        self._free += 1
        self._release(ticket)
        self._start_next()
        if any(test.held_out for test in ticket.content.program.tests):
            took, when = time.monotonic() - ticket.content.begun, _FIRST_TIME
            while when < took:
                when *= _TIMES_MORE
            asyncio.get_running_loop().call_later(when - took, self._tell, ticket.content)
        else:
            self._tell(ticket.content)

    def _tell(self, work: Work) -> None:
        if work.outcome is not None:
            work.done(work.outcome)

    async def _serve(self, work: Work, caller: str) -> None:
        work.begun = time.monotonic()
        waited = timedelta(seconds=work.begun - work.since)
        try:
            execution = await self._grade(work.program, waited, caller)
            self._mean_seconds += 0.05 * (execution.wall_time.total_seconds() - self._mean_seconds)
            work.outcome = execution
        except Unavailable as error:
            self._meter.faulted()
            work.outcome = error
        except RatchetError as error:
            work.outcome = error
        except Exception as error:  # a bug: whatever it is, it is this program's alone
            log.error("program.not_judged", program_id=work.program.id, reason=repr(error), exc_info=error)
            self._meter.faulted()
            work.outcome = Unavailable(f"the sandbox failed on this program ({type(error).__name__}; its log has more)")


def _ignore(outcome: Execution | RatchetError) -> None:
    """For withdrawn work: its outcome is not awaited."""
