"""More tests for a problem: inputs near those of its own tests, with what its reference gives, of which those are kept
that kill mutants which survived."""

import asyncio
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.audit import MUTANTS
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import in_kinds, preflight
from ratchet_environments.programs import program_for
from ratchet_environments.task import Task
from ratchet_kit import syntax
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.times import duration_to_proto
from ratchet_problems import CallTest, Problem, variation
from ratchet_problems.cheats import calls_of
from ratchet_problems.languages import PYTHON
from ratchet_problems.mutants import mutants

INPUTS = 100
"""Tried for a problem."""
MOST_ADDED = 10
"""Tests that a problem gets at most."""
_LONGEST = 2_000
"""Characters of an expected value."""
_ANSWERS = "answers.json"
_PROBLEMS = 4
_AT_A_TIME = 16
_RECORD = """

def _record(function):
    import copy, json
    answers = []
    for place, arguments in enumerate({inputs}):
        try:
            first, second = (repr(function(*copy.deepcopy(arguments))) for _ in range(2))
        except BaseException:
            continue
        if first == second:
            answers.append([place, first])
    with open({file!r}, "w") as file:
        json.dump(answers, file)


_record({function})
"""


@dataclass(frozen=True, slots=True)
class Strengthened:
    problem: Problem
    """With the tests that were added, if there are any."""
    mutants: int = 0
    killed: int = 0
    """By its own tests."""
    killed_now: int = 0
    fault: str = ""
    """Why nothing could be added."""


async def strengthen(executor: Executor, task: Task, inputs: int = INPUTS) -> Strengthened:
    """Raises Unavailable when the platform failed again and again."""
    problem = task.problem
    seeds = calls_of(problem)
    if problem.language != PYTHON or not problem.entry_point or not seeds:
        return Strengthened(problem, fault="its tests show no arguments of calls")
    environment = CodeEnvironment(executor, forgeable=True)
    tried = await preflight(environment, task)
    if tried.fault:
        return Strengthened(problem, fault=tried.fault)
    own = mutants(problem.references[0], MUTANTS)
    most_time = timedelta(seconds=1) + 5 * tried.cpu_time
    task = replace(task, problem=tried.problem, is_program=True, limits=replace(task.limits, cpu_time=most_time))
    room = asyncio.Semaphore(_AT_A_TIME)

    async def ran(source: str, *tests: CallTest) -> pb.Execution | None:
        """None: it passes nothing."""
        its = replace(task, problem=replace(problem, tests=tests)) if tests else task
        async with room:
            try:
                return await executor.execute(program_for(its, source))
            except InvalidArgument:
                return None

    before = await asyncio.gather(*(ran(one.source) for one in own))
    survivors = [one.source for one, found in zip(own, before, strict=True) if found and _passed(found)]
    killed = len(own) - len(survivors)
    found = await _answered(executor, task, variation.near(seeds, inputs, zlib.crc32(problem.id.encode())))
    if not survivors or not found:
        return Strengthened(problem, len(own), killed, killed)
    after = await asyncio.gather(*(ran(source, *found) for source in survivors))
    chosen = _cover([_kills(one, len(found)) for one in after])
    stronger = replace(problem, tests=(*problem.tests, *(found[place] for place in chosen)))
    if chosen:  # by the sandbox's own comparison
        checked = await preflight(environment, replace(task, problem=in_kinds(stronger, tried.shared)))
        if checked.fault:
            return Strengthened(problem, len(own), killed, killed, f"its reference fails its answers: {checked.fault}")
    now = sum(bool(_kills(one, len(found)) & set(chosen)) for one in after)
    return Strengthened(stronger, len(own), killed, killed + now)


async def strengthen_all(
    executor: Executor, tasks: Sequence[Task], tell: Callable[[int, int], None] = lambda done, total: None
) -> list[Strengthened]:
    """In order. `tell` is given the number of problems that are done, and of all. Raises as `strengthen`."""
    room, done = asyncio.Semaphore(_PROBLEMS), 0

    async def one(task: Task) -> Strengthened:
        nonlocal done
        async with room:
            found = await strengthen(executor, task)
        done += 1
        tell(done, len(tasks))
        return found

    return list(await asyncio.gather(*map(one, tasks)))


async def _answered(executor: Executor, task: Task, inputs: Sequence[list[object]]) -> list[CallTest]:
    """A test for each input that the reference answers, twice the same, with a value that can be written."""
    owner, _, method = task.problem.entry_point.rpartition(".")
    function = f"lambda *arguments: {owner}().{method}(*arguments)" if owner else method
    written = [syntax.write(one) for one in inputs]
    source = task.problem.references[0] + _RECORD.format(
        inputs=f"[{', '.join(written)}]", file=_ANSWERS, function=function
    )
    limits = problem_pb2.Limits()
    limits.cpu_time.CopyFrom(duration_to_proto(timedelta(seconds=20)))
    program = pb.Program(id=task.problem.id, source=source, limits=limits, runtime=task.runtime, fetch_files=[_ANSWERS])
    execution = await executor.execute(program)
    answers = next((file.content for file in execution.files if file.name == _ANSWERS), b"[]")
    made = []
    for place, text in json.loads(answers):
        try:
            if len(text) <= _LONGEST:
                made.append(CallTest(written[place], syntax.write(syntax.value(text))))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue  # an object that no literal writes
    return made


def _passed(execution: pb.Execution) -> bool:
    return execution.verdict == verdict_pb2.VERDICT_PASSED


def _kills(execution: pb.Execution | None, tests: int) -> set[int]:
    """The places of the tests that fail it; one that was not reached does."""
    if execution is None:
        return set(range(tests))
    passed = {place for place, result in enumerate(execution.results) if result.passed}
    return set(range(tests)) - passed


def _cover(kills: Sequence[set[int]]) -> list[int]:
    """Tests by which all that can be killed are, MOST_ADDED at most: greedily, the one that kills most first."""
    left, chosen = [one for one in kills if one], list[int]()
    while left and len(chosen) < MOST_ADDED:
        counts: dict[int, int] = {}
        for places in left:
            for place in places:
                counts[place] = counts.get(place, 0) + 1
        best = max(sorted(counts), key=lambda place: counts[place])
        chosen.append(best)
        left = [places for places in left if best not in places]
    return chosen
