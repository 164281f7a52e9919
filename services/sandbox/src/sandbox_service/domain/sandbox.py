"""Grades programs: a bounded queue, one retry when the platform fails, and never a verdict for its faults."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import ResourceExhausted, Unavailable
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.grading import Outcome, conclude, plan
from sandbox_service.domain.ports import Capabilities, Executor, Job, Report
from sandbox_service.domain.program import Program
from sandbox_service.domain.runtimes import is_plain, settle

_LEAST_CPU = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class PlatformFault:
    """Why a program of a batch has no execution: the platform's fault, twice in a row. Retry."""

    message: str


class Sandbox:
    def __init__(self, executor: Executor, queue_limit: int) -> None:
        """`queue_limit`: programs admitted at a time, running ones included."""
        self._executor = executor
        self._queue_limit = queue_limit
        self._admitted = 0
        self._mean_seconds = 0.01

    @property
    def capabilities(self) -> Capabilities:
        return self._executor.capabilities

    async def describe(self) -> Capabilities:
        """As `capabilities`, with all versions."""
        return await self._executor.describe()

    async def execute(self, program: Program) -> Execution:
        """Raises ResourceExhausted when the queue is full, Unavailable when the platform failed twice.

        Raises what `settle` raises.
        """
        program = self._settle(program)
        with self._admit(1):
            return await self._grade(program)

    async def execute_batch(self, programs: Sequence[Program]) -> list[Execution | PlatformFault]:
        """In the order of the programs. Raises ResourceExhausted when the queue has no room for all of them.

        Raises what `settle` raises.
        """
        programs = [self._settle(program) for program in programs]
        with self._admit(len(programs)):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._grade_or_fault(program)) for program in programs]
            return [task.result() for task in tasks]

    @contextlib.contextmanager
    def _admit(self, count: int) -> Iterator[None]:
        if self._admitted + count > self._queue_limit:
            wait = self._admitted * self._mean_seconds / max(1, self.capabilities.lanes)
            raise ResourceExhausted(
                f"the queue holds {self._admitted} of {self._queue_limit} programs: no room for {count} more",
                retry_after=timedelta(seconds=max(0.1, wait)),
            )
        self._admitted += count
        try:
            yield
        finally:
            self._admitted -= count

    def _settle(self, program: Program) -> Program:
        return program if is_plain(program) else settle(program, self.capabilities)

    async def _grade_or_fault(self, program: Program) -> Execution | PlatformFault:
        try:
            return await self._grade(program)
        except Unavailable as error:
            return PlatformFault(str(error))

    async def _grade(self, program: Program) -> Execution:
        outcomes: list[Outcome] = []
        reports: list[Report] = []
        left = program.limits.cpu_time
        for step in plan(program):
            report = await self._run(step.job(replace(program.limits, cpu_time=left)))
            outcomes.append(step.judge(report))
            reports.append(report)
            left = max(left - report.cpu_time, _LEAST_CPU)
            if outcomes[-1].stop:
                break
        execution = conclude(program, outcomes, reports)
        self._mean_seconds += 0.05 * (execution.wall_time.total_seconds() - self._mean_seconds)
        return execution

    async def _run(self, job: Job) -> Report:
        try:
            return await self._executor.run(job)
        except Unavailable:
            return await self._executor.run(job)
