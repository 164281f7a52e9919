"""Grades programs: a bounded fair queue, one retry when the platform fails, and never a verdict for its faults."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from ratchet_kit.errors import ResourceExhausted, Unavailable
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.grading import Outcome, conclude, plan
from sandbox_service.domain.ports import Capabilities, Executor, Job, Report
from sandbox_service.domain.program import Program
from sandbox_service.domain.queue import Entry, FairQueue, Priority
from sandbox_service.domain.runtimes import is_plain, settle

READ_AHEAD = 512
"""Programs of one stream that are queued, running or not yet taken by its reader; beyond it the stream is not read."""
GATHER_ITEMS = 32
GATHER_TIME = timedelta(milliseconds=10)
"""Results that come close together travel together: a message costs as much as ten results in it."""

_LEAST_CPU = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class PlatformFault:
    """Why a program of a batch has no execution: the platform's fault, twice in a row. Retry."""

    message: str


@dataclass(frozen=True, slots=True)
class Item:
    """What became of one program of a stream. `index` is its place in it, from 0."""

    index: int
    outcome: Execution | PlatformFault


class Meter(Protocol):
    """Is told what happens, for those who watch the service."""

    def executed(self, execution: Execution, waited: timedelta, graded: timedelta) -> None: ...

    def faulted(self) -> None: ...

    def queued(self, priority: Priority, waiting: int) -> None: ...

    def refused(self) -> None: ...


class NoMeter:
    def executed(self, execution: Execution, waited: timedelta, graded: timedelta) -> None: ...

    def faulted(self) -> None: ...

    def queued(self, priority: Priority, waiting: int) -> None: ...

    def refused(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Work:
    """A program that was admitted. `done` is called once with what came of it, unless the work is withdrawn."""

    program: Program
    done: Callable[[Execution | BaseException], None]
    since: float
    task: asyncio.Task[None] | None = None
    outcome: Execution | BaseException | None = None


class Sandbox:
    def __init__(self, executor: Executor, queue_limit: int, meter: Meter | None = None) -> None:
        """`queue_limit`: programs admitted at a time, running ones included."""
        self._executor = executor
        self._queue_limit = queue_limit
        self._meter = meter or NoMeter()
        self._queue: FairQueue[_Work] = FairQueue()
        # One beyond the lanes, so that none waits while a result is being judged.
        self._free = executor.capabilities.lanes + 1
        self._held: Counter[str] = Counter()
        self._admitted = 0
        self._room = asyncio.Event()
        self._mean_seconds = 0.01

    @property
    def capabilities(self) -> Capabilities:
        return self._executor.capabilities

    async def describe(self) -> Capabilities:
        """As `capabilities`, with all versions."""
        return await self._executor.describe()

    async def execute(self, program: Program, caller: str = "", priority: Priority = Priority.NORMAL) -> Execution:
        """Cancelled, it leaves nothing running.

        Raises ResourceExhausted when the queue is full, Unavailable when the platform failed twice, and what `settle`
        raises.
        """
        program = self._settle(program)
        self._demand_room(1, caller)
        result: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()

        def done(outcome: Execution | BaseException) -> None:
            if result.done():  # cancelled, and about to be withdrawn
                return
            if isinstance(outcome, BaseException):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

        entry = self._submit(program, done, caller, priority)
        try:
            return await result
        except asyncio.CancelledError:
            await self._withdraw([entry])
            raise

    async def execute_batch(
        self, programs: Sequence[Program], caller: str = "", priority: Priority = Priority.NORMAL
    ) -> list[Execution | PlatformFault]:
        """In the order of the programs. Raises ResourceExhausted when the queue has no room for all of them."""

        async def one() -> AsyncIterator[Sequence[Program]]:
            yield programs

        items: dict[int, Execution | PlatformFault] = {}
        async for some in self.execute_stream(one(), caller, priority):
            items |= {item.index: item.outcome for item in some}
        return [items[i] for i in range(len(programs))]

    async def execute_stream(
        self,
        batches: AsyncIterator[Sequence[Program]],
        caller: str = "",
        priority: Priority = Priority.NORMAL,
        patient: bool = False,
    ) -> AsyncGenerator[list[Item]]:
        """Results as they come, a few at a time. Closed or cancelled, it leaves nothing queued and nothing running.

        The stream is read on while fewer than READ_AHEAD of its programs are under way; where the queue is full, its
        programs wait for room. What `batches` raises ends it.
        Raises ResourceExhausted when the queue has no room for the first batch, unless the caller is `patient`, and
        what `settle` raises.
        """
        stream = _Stream(self, caller, priority, patient)
        reader = asyncio.create_task(stream.read(batches))
        reader.add_done_callback(lambda _: stream.changed.set())
        try:
            while True:
                await stream.wait_for_items(reader)
                if items := stream.take():
                    yield items
                elif reader.done():
                    reader.result()
                    if not stream.entries:
                        return
        finally:
            reader.cancel()
            await asyncio.wait({reader})
            await self._withdraw(list(stream.entries.values()))

    # The queue

    def _demand_room(self, count: int, caller: str) -> None:
        if not self._has_room(count, caller):
            self._meter.refused()
            wait = self._admitted * self._mean_seconds / max(1, self.capabilities.lanes)
            raise ResourceExhausted(
                f"the queue holds {self._admitted} of {self._queue_limit} programs: no room for {count} more",
                retry_after=timedelta(seconds=max(0.1, wait)),
            )

    def _settle(self, program: Program) -> Program:
        return program if is_plain(program) else settle(program, self.capabilities)

    def _has_room(self, count: int, caller: str) -> bool:
        """A caller that holds less than its share is let in even if others have filled the queue."""
        if self._admitted + count <= self._queue_limit or self._admitted == 0:
            return True
        others = len(self._held) - (caller in self._held)
        share = self._queue_limit // (others + 1)
        return others > 0 and self._held[caller] + count <= share and self._admitted + count <= 2 * self._queue_limit

    def _submit(
        self, program: Program, done: Callable[[Execution | BaseException], None], caller: str, priority: Priority
    ) -> Entry[_Work]:
        entry = Entry(_Work(program, done, time.monotonic()), caller, priority)
        self._admitted += 1
        self._held[caller] += 1
        self._queue.put(entry)
        self._start_next()
        if entry.content.task is None:
            self._meter.queued(priority, self._queue.length(priority))
        return entry

    def _start_next(self) -> None:
        while self._free and len(self._queue):
            entry = self._queue.take()
            self._free -= 1
            entry.content.task = asyncio.create_task(self._serve(entry.content))
            # By a callback: a task that is cancelled before its first step runs nothing of its own.
            entry.content.task.add_done_callback(partial(self._ended, entry))
            self._meter.queued(entry.priority, self._queue.length(entry.priority))

    def _release(self, entry: Entry[_Work]) -> None:
        self._admitted -= 1
        self._held[entry.caller] -= 1
        if not self._held[entry.caller]:
            del self._held[entry.caller]
        self._room.set()
        self._room.clear()

    def _ended(self, entry: Entry[_Work], _task: asyncio.Task[None]) -> None:
        self._free += 1
        self._release(entry)
        self._start_next()
        if entry.content.outcome is not None:
            entry.content.done(entry.content.outcome)

    async def _serve(self, work: _Work) -> None:
        waited = timedelta(seconds=time.monotonic() - work.since)
        try:
            work.outcome = await self._grade(work.program, waited)
        except Unavailable as error:
            self._meter.faulted()
            work.outcome = error
        except Exception as error:  # noqa: BLE001 - a bug, and raised where the result is awaited
            work.outcome = error

    async def _withdraw(self, entries: Sequence[Entry[_Work]]) -> None:
        """What waits leaves the queue, what runs is killed; returns when it's gone."""
        running: list[asyncio.Task[None]] = []
        for entry in entries:
            entry.content.done = _ignore
            if (task := entry.content.task) is not None:
                task.cancel()
                running.append(task)
            else:
                self._queue.remove(entry)
                self._release(entry)
        for priority in {entry.priority for entry in entries}:
            self._meter.queued(priority, self._queue.length(priority))
        if running:
            await asyncio.wait(running)

    # One program

    async def _grade(self, program: Program, waited: timedelta) -> Execution:
        outcomes: list[Outcome] = []
        reports: list[Report] = []
        limits = program.limits
        judging = 0.0
        for step in plan(program):
            if reports:
                limits = replace(limits, cpu_time=max(limits.cpu_time - reports[-1].cpu_time, _LEAST_CPU))
            report = await self._run(step.job(limits))
            started = time.perf_counter()
            outcomes.append(step.outcome(report))
            judging += time.perf_counter() - started
            reports.append(report)
            if outcomes[-1].stop:
                break
        execution = conclude(program, outcomes, reports)
        self._mean_seconds += 0.05 * (execution.wall_time.total_seconds() - self._mean_seconds)
        self._meter.executed(execution, waited, timedelta(seconds=judging))
        return execution

    async def _run(self, job: Job) -> Report:
        try:
            return await self._executor.run(job)
        except Unavailable:
            return await self._executor.run(job)


class _Stream:
    """One caller's programs under way: read in by one task, their results taken out by another."""

    def __init__(self, sandbox: Sandbox, caller: str, priority: Priority, patient: bool) -> None:
        self._sandbox, self._caller, self._priority, self._patient = sandbox, caller, priority, patient
        self.entries: dict[int, Entry[_Work]] = {}
        self.changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._ready: list[Item] = []
        self._broken: BaseException | None = None

    async def read(self, batches: AsyncIterator[Sequence[Program]]) -> None:
        index, first = 0, not self._patient
        async for batch in batches:
            programs = [self._sandbox._settle(program) for program in batch]
            if first and programs:
                self._sandbox._demand_room(len(programs), self._caller)
            for program in programs:
                if not first:
                    await self._wait_for_room()
                self._add(index, program)
                index += 1
            first = False

    async def _wait_for_room(self) -> None:
        while len(self.entries) + len(self._ready) >= READ_AHEAD:
            self._taken.clear()
            await self._taken.wait()
        while not self._sandbox._has_room(1, self._caller):
            await self._sandbox._room.wait()

    def _add(self, index: int, program: Program) -> None:
        def done(outcome: Execution | BaseException) -> None:
            del self.entries[index]
            if isinstance(outcome, Unavailable):
                self._ready.append(Item(index, PlatformFault(str(outcome))))
            elif isinstance(outcome, BaseException):
                self._broken = outcome
            else:
                self._ready.append(Item(index, outcome))
            self.changed.set()

        self.entries[index] = self._sandbox._submit(program, done, self._caller, self._priority)

    async def wait_for_items(self, reader: asyncio.Task[None]) -> None:
        """Until enough have come to be worth a message, or for a moment after the first, or until no more will come.

        Raises what a program's execution raised that is no fault of the platform: a bug.
        """
        gathering: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            if self._broken is not None:
                raise self._broken
            if len(self._ready) >= GATHER_ITEMS or (not self.entries and (self._ready or reader.done())):
                return
            if reader.done() and reader.exception() is not None:
                return
            if self._ready and gathering is None:
                gathering = loop.time() + GATHER_TIME.total_seconds()
            if gathering is not None and loop.time() >= gathering:
                return
            self.changed.clear()
            try:
                async with asyncio.timeout_at(gathering):
                    await self.changed.wait()
            except TimeoutError:
                return

    def take(self) -> list[Item]:
        items, self._ready = self._ready, []
        self._taken.set()
        return items


def _ignore(outcome: Execution | BaseException) -> None:
    """For work that nobody waits for any more."""
