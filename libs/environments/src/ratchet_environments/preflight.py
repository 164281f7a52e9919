"""Problems tried before they are used: does the reference pass, and may the tests stay apart from the program?

    python -m ratchet_environments.preflight problems.jsonl --sandbox 127.0.0.1:8004 --out checked.jsonl

All tests are run against the problem's first reference, in the strict kind; where that fails, each by itself. Only a
check that fails there is tried in the shared kind, and takes it where it passes: what comes of such a problem can be
forged (docs/sandbox/grading.md).
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_environments.programs import program_for
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.task import Limits, Task
from ratchet_kit import client
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CheckTest, Problem, TestCase, jsonl

_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Preflight:
    """What became of a problem."""

    problem: Problem
    """With `shared` set for the checks that must."""
    shared: tuple[str, ...] = ()
    """Why each of these must: its place, and what went wrong in the strict kind."""
    fault: str = ""
    """Why it can't be used: its reference does not pass, or it has none."""


async def preflight(executor: Executor, problem: Problem, runtime: str = "", limits: Limits = Limits()) -> Preflight:
    """Raises Unavailable when the platform failed again and again."""
    task = Task.of(problem, runtime=runtime, limits=limits)
    if not problem.references:
        return Preflight(problem, fault="has no reference to try it with")
    if not await _wrong(executor, task, *problem.tests):
        return Preflight(problem)
    tests, shared = list(problem.tests), list[str]()
    for place, test in enumerate(problem.tests):
        wrong = await _wrong(executor, task, test)
        if wrong.startswith("TIME_LIMIT"):
            pass  # no kind of grading would help
        elif wrong and isinstance(test, CheckTest) and not (test.shared or test.held_out):
            beside = replace(test, shared=True)
            wrong_beside = await _wrong(executor, task, beside)
            if not wrong_beside:
                tests[place] = beside
                shared.append(f"tests[{place}] must share the program's process: {wrong}")
                continue
            wrong = f"{wrong}; and beside the program: {wrong_beside}"
        if wrong:
            return Preflight(problem, fault=f"tests[{place}]: its reference does not pass: {wrong}")
    return Preflight(replace(problem, tests=tuple(tests)), tuple(shared))


async def _wrong(executor: Executor, task: Task, *tests: TestCase) -> str:
    """Empty where the reference passes."""
    program: pb.Program = program_for(replace(task, problem=replace(task.problem, tests=tests)), "")
    program.source = task.problem.references[0]
    try:
        execution = await executor.execute(program)
    except InvalidArgument as error:
        return error.message
    if execution.verdict == verdict_pb2.VERDICT_PASSED:
        return ""
    if execution.HasField("failure"):
        return execution.failure.message
    return f"{verdict_pb2.Verdict.Name(execution.verdict).removeprefix('VERDICT_')} {execution.detail}".strip()


async def preflight_all(
    executor: Executor,
    problems: Sequence[Problem],
    runtime: str = "",
    limits: Callable[[Problem], Limits] = lambda problem: Limits(),
    progress: Callable[[int], None] = lambda done: None,
) -> list[Preflight]:
    """In order. `limits`: of a problem's programs. `progress` is given the number of problems done. Raises
    Unavailable."""
    room, done = asyncio.Semaphore(_AT_A_TIME), 0

    async def one(problem: Problem) -> Preflight:
        nonlocal done
        async with room:
            found = await preflight(executor, problem, runtime, limits(problem))
        done += 1
        progress(done)
        return found

    return list(await asyncio.gather(*map(one, problems)))


async def _main(arguments: argparse.Namespace) -> int:
    problems = jsonl.read(arguments.problems)
    async with client.channel(arguments.sandbox) as channel, Executor(GrpcSandbox(channel)) as executor:
        found = await preflight_all(executor, problems, arguments.runtime)
    for one in found:
        for line in (*one.shared, one.fault):
            if line:
                print(f"{one.problem.id}: {line}")
    good = [one.problem for one in found if not one.fault]
    forgeable = sum(problem.forgeable for problem in good)
    print(f"{len(good)} of {len(found)} problems can be used, {forgeable} of them with results that can be forged")
    if arguments.out and good:
        jsonl.write(good, arguments.out)
    return 0 if len(good) == len(found) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ratchet_environments.preflight", description=__doc__)
    parser.add_argument("problems", help="a JSONL file of problems, with references")
    parser.add_argument("--sandbox", required=True, help="host:port of sandbox-service")
    parser.add_argument("--runtime", default="", help="the sandbox's Python environment; empty: the imports choose it")
    parser.add_argument("--out", help="where to write the problems that can be used, each in its kind")
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
