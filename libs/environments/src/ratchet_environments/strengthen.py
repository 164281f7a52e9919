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
from ratchet_environments.audit import MUTANTS, each, in_time, of_programs
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import preflight
from ratchet_environments.programs import program_for
from ratchet_environments.task import Task
from ratchet_kit import syntax
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.times import duration_from_proto, duration_to_proto
from ratchet_problems import CallTest, Problem, shown_calls, variation
from ratchet_problems.languages import PYTHON
from ratchet_problems.mutants import mutants

INPUTS = 100
"""Tried for a problem."""
MOST_ADDED = 10
"""Tests that a problem gets at most."""
_LONGEST = 2_000
"""Characters of an expected value."""
_ANSWERS = "answers.json"
_PATIENCE = timedelta(seconds=20)
"""CPU time for all inputs of a reference."""
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
    seeds = shown_calls.arguments(problem)
    if problem.language != PYTHON or not problem.entry_point or not seeds:
        return Strengthened(problem, fault="its tests show no arguments of calls")
    environment = CodeEnvironment(executor, forgeable=True)
    tried = await preflight(environment, task)
    if tried.fault:
        return Strengthened(problem, fault=tried.fault)
    own, task = mutants(problem.references[0], MUTANTS), of_programs(task, tried)
    room = asyncio.Semaphore(_AT_A_TIME)

    async def ran(task: Task, source: str) -> pb.Execution | None:
        """None: it passes nothing."""
        async with room:
            try:
                return await executor.execute(program_for(task, source))
            except InvalidArgument:
                return None

    before = await asyncio.gather(*(ran(task, one.source) for one in own))
    survivors = [one.source for one, found in zip(own, before, strict=True) if found and _passed(found)]
    killed = len(own) - len(survivors)
    added = await _answered(executor, task, variation.near(seeds, inputs, zlib.crc32(problem.id.encode())))
    # by the sandbox's own comparison, and in the time that mutants get a multiple of
    patient = replace(
        task, problem=replace(problem, tests=tuple(added)), limits=replace(task.limits, cpu_time=_PATIENCE)
    )
    whole = await ran(patient, problem.references[0]) if survivors and added else None
    if whole is None:
        return Strengthened(problem, len(own), killed, killed)
    sound = [test for place, test in enumerate(added) if place not in _kills(whole, len(added))]
    judged = in_time(patient, duration_from_proto(whole.cpu_time))
    judged = replace(judged, problem=replace(problem, tests=tuple(sound)))
    after = await asyncio.gather(*(ran(judged, source) for source in survivors)) if sound else []
    kills = [_kills(one, len(sound)) for one in after]
    chosen = _cover(kills)
    now = sum(bool(places & set(chosen)) for places in kills)
    stronger = replace(problem, tests=(*problem.tests, *(sound[place] for place in chosen)))
    return Strengthened(stronger, len(own), killed, killed + now)


async def strengthen_all(
    executor: Executor, tasks: Sequence[Task], tell: Callable[[int, int], None] = lambda done, total: None
) -> list[Strengthened]:
    """In order. `tell` is given the number of problems that are done, and of all. Raises as `strengthen`."""
    return await each(lambda task: strengthen(executor, task), tasks, tell, at_once=4)


async def _answered(executor: Executor, task: Task, inputs: Sequence[list[object]]) -> list[CallTest]:
    """A test for each input that the reference answers, twice the same, with a value that can be written."""
    owner, _, method = task.problem.entry_point.rpartition(".")
    function = f"lambda *arguments: {owner}().{method}(*arguments)" if owner else method
    written = [syntax.write(one) for one in inputs]
    source = task.problem.references[0] + _RECORD.format(
        inputs=f"[{', '.join(written)}]", file=_ANSWERS, function=function
    )
    limits = problem_pb2.Limits()
    limits.cpu_time.CopyFrom(duration_to_proto(_PATIENCE))
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
