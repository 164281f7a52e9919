"""Use cases of programs: execute one, several, or a stream. One retry when the platform fails, and never a verdict."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_kit.work import Priority
from sandbox_service.domain.admission import Admission
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.grading import Outcome, conclude, judged_whole, overrun, signs_of
from sandbox_service.domain.held_out import Attempts
from sandbox_service.domain.jobs import Job, Report
from sandbox_service.domain.plan import Step, plan
from sandbox_service.domain.ports import Aside, Executor, Meter, Overrun
from sandbox_service.domain.program import Limits, Program
from sandbox_service.domain.runtimes import is_plain, settle
from sandbox_service.domain.signs import Sighting
from sandbox_service.domain.stream import Item, PlatformFault, Stream

_LARGE = 1 << 15
"""Characters: more than that is compared where it can hold up nobody."""
_T = TypeVar("_T")
_LEAST_CPU = timedelta(milliseconds=10)


class NoMeter:
    """Counts nothing."""

    def executed(
        self, execution: Execution, waited: timedelta, graded: timedelta, hidden: Sequence[Sighting] = ()
    ) -> None: ...

    def faulted(self) -> None: ...

    def queued(self, priority: Priority, waiting: int) -> None: ...

    def refused(self) -> None: ...


async def do_here(function: Callable[..., _T], *arguments: object) -> _T:
    """Work that holds up others."""
    return function(*arguments)


class Sandbox:
    def __init__(
        self,
        executor: Executor,
        queue_limit: int,
        meter: Meter | None = None,
        held_out_attempts: int = 0,
        aside: Aside | None = None,
        queue_bytes: int = 256 << 20,
    ) -> None:
        """`queue_limit`: programs admitted at a time, running ones included, and of `queue_bytes` together.
        `aside`: judges what is large; without one it's judged here.
        `held_out_attempts`: how often a caller may try the same held-out tests within a day; 0 bounds nothing.
        """
        self._executor = executor
        self._aside = aside or do_here
        self._attempts = Attempts(held_out_attempts)
        self._meter = meter or NoMeter()
        self._admission = Admission(self._grade, executor.capabilities.lanes, queue_limit, queue_bytes, self._meter)

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
        self._admission.demand_room([program], caller)
        result: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()

        def done(outcome: Execution | RatchetError) -> None:
            if result.done():  # cancelled, and about to be withdrawn
                return
            if isinstance(outcome, RatchetError):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

        ticket = self._admission.submit(program, done, caller, priority)
        try:
            return await result
        except asyncio.CancelledError:
            await self._admission.withdraw([ticket])
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
        stream = Stream(self._admission, self._settle, caller, priority, patient)
        reader = asyncio.create_task(stream.read(batches))
        reader.add_done_callback(lambda _: stream.changed.set())
        try:
            while True:
                await stream.wait_for_items(reader)
                if items := stream.take():
                    yield items
                elif reader.done():
                    reader.result()
                    if not stream.tickets:
                        return
        finally:
            reader.cancel()
            await asyncio.wait({reader})
            await self._admission.withdraw(list(stream.tickets.values()))

    def _settle(self, program: Program) -> Program:
        return program if is_plain(program) else settle(program, self.capabilities)

    async def _grade(self, program: Program, waited: timedelta, caller: str) -> Execution:
        self._attempts.count(program, caller)
        outcomes: list[Outcome] = []
        reports: list[Report] = []
        judging, hidden_ended = 0.0, False
        for step in plan(program):
            if step.held_out and hidden_ended:
                outcomes.append(step.unreached())
                reports.append(reports[-1])
                continue
            limits = _left(program.limits, step, outcomes, reports)
            report, outcome, seconds = await self._take(step, limits)
            judging += seconds
            outcomes.append(outcome)
            reports.append(report)
            if outcomes[-1].stop:
                if not step.held_out:
                    break
                hidden_ended = True  # whether visible tests are reached must not tell so
        execution = conclude(program, outcomes, reports)
        hidden = signs_of(outcomes, held_out=True)
        self._meter.executed(execution, waited, timedelta(seconds=judging), hidden)
        return execution

    async def _take(self, step: Step, limits: Limits) -> tuple[Report, Outcome, float]:
        """With the seconds that judging took."""
        report = await self._run(step.job(limits))
        started = time.perf_counter()
        report, outcome = await self._judged(step, report)
        took = time.perf_counter() - started
        if outcome is None:
            assert step.instead
            return await self._take(step.instead, limits)
        return step.shown(report), outcome, took

    async def _judged(self, step: Step, report: Report) -> tuple[Report, Outcome | None]:
        if report.unread is None and max(step.size, len(report.stdout)) <= _LARGE:
            return report, step.outcome(report)
        outcome: Outcome | None
        try:
            with self._admission.aside():
                report, outcome = await self._aside(judged_whole, report, step.judge)
        except Overrun:
            outcome = overrun()
        return report, step.concluded(outcome, report)

    async def _run(self, job: Job) -> Report:
        try:
            return await self._executor.run(job)
        except Unavailable:
            return await self._executor.run(job)


def _left(limits: Limits, step: Step, outcomes: Sequence[Outcome], reports: Sequence[Report]) -> Limits:
    """What held-out tests took is not missing where it could be seen: visible tests share the time among themselves."""
    seen = zip(reports, outcomes, strict=True)
    used = sum((report.cpu_time for report, one in seen if step.held_out or not one.held_out), timedelta())
    return replace(limits, cpu_time=max(limits.cpu_time - used, min(limits.cpu_time, _LEAST_CPU)))
