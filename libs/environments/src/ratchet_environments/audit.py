"""How far a problem's tests can be hacked: which cheats pass them, and which mutants of the reference survive."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from ratchet_environments.environment import Environment, judge
from ratchet_environments.preflight import Preflight, preflight
from ratchet_environments.task import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.cheats import cheats
from ratchet_problems.mutants import mutants

MUTANTS = 30
"""The most that a problem's reference gets."""
_AT_A_TIME = 16
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Audited:
    """A problem's cheats and mutants that its tests pass."""

    id: str
    cheats: Sequence[str] = ()
    """Names of those that pass all tests."""
    mutants: int = 0
    survivors: Sequence[str] = ()
    """Mutants that pass all tests, each as "line 3: a < b -> a <= b". One may be as right as the reference."""
    fault: str = ""
    """Why nothing can be said: it has no reference, or that does not pass."""

    @property
    def weakness(self) -> float:
        """From 0 to 1: 1 where a cheat passes, else the share of mutants that survive."""
        return 1.0 if self.cheats else len(self.survivors) / self.mutants if self.mutants else 0.0


def of_programs(task: Task, tried: Preflight) -> Task:
    """The task whose answers are whole programs, in the time that its reference took and some: a mutant may run for
    good."""
    return replace(in_time(task, tried.cpu_time), problem=tried.problem, is_program=True)


def in_time(task: Task, reference: timedelta) -> Task:
    """The task with a limit for programs whose reference takes this CPU time."""
    most = timedelta(seconds=1) + 5 * reference
    return replace(task, limits=replace(task.limits, cpu_time=min(task.limits.cpu_time or most, most)))


async def audit(environment: Environment, task: Task, most: int = MUTANTS) -> Audited:
    """`environment`: one that takes tests which share the program's process. Raises what it raises but InvalidArgument,
    which is the problem's fault."""
    problem = task.problem
    if problem.answers:
        return Audited(problem.id, fault="its answer judges it, and no tests")
    tried = await preflight(environment, task)
    if tried.fault:
        return Audited(problem.id, fault=tried.fault)
    task = of_programs(task, tried)
    room = asyncio.Semaphore(_AT_A_TIME)

    async def passes(source: str) -> bool:
        async with room:
            try:
                return (await judge(environment, task, source)).grade.passed
            except InvalidArgument:
                return False

    wrong, own = cheats(problem), mutants(problem.references[0], most)
    passed = await asyncio.gather(*map(passes, [*(one.source for one in wrong), *(one.source for one in own)]))
    survivors = [f"line {one.line}: {one.change}" for one, got in zip(own, passed[len(wrong) :], strict=True) if got]
    return Audited(problem.id, [one.name for one, got in zip(wrong, passed, strict=False) if got], len(own), survivors)


async def audit_all(
    environment: Environment, tasks: Sequence[Task], tell: Callable[[int, int], None] = lambda done, total: None
) -> list[Audited]:
    """In order. `tell` is given the number of problems that are done, and of all. Raises as `audit`."""
    return await each(lambda task: audit(environment, task), tasks, tell)


async def each(
    do: Callable[[U], Awaitable[T]], tasks: Sequence[U], tell: Callable[[int, int], None], at_once: int = 8
) -> list[T]:
    """The outcome of each task, in order. The first that raises ends the others, and is raised."""
    room, done = asyncio.Semaphore(at_once), 0

    async def one(task: U) -> T:
        nonlocal done
        async with room:
            found = await do(task)
        done += 1
        tell(done, len(tasks))
        return found

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    except ExceptionGroup as error:
        raise error.exceptions[0] from error
    return [found.result() for found in running]
