"""Answers that are no programs: compared with the right ones by math-verify, in the sandbox."""

import json
from datetime import timedelta
from importlib import resources

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_kit.errors import Unavailable
from ratchet_kit.times import duration_from_proto, duration_to_proto
from ratchet_problems import Problem
from ratchet_problems.answer_program import BEGUN
from ratchet_rewards import Grade

RUNTIME = "math"
"""The sandbox's environment that has math-verify: services/sandbox/runtimes/math."""
CPU_TIME = timedelta(seconds=5)
"""An answer that takes longer, `9**9**9` for one, is a wrong one."""
_SOURCE = resources.files("ratchet_problems").joinpath("answer_program.py").read_text(encoding="utf-8")


async def grade(executor: Executor, problem: Problem, answer: str) -> Grade:
    """Raises Unavailable where the platform could not compare, and what the executor raises: Unimplemented where the
    sandbox has no runtime for it."""
    execution = await executor.execute(_program(problem, answer))
    printed = execution.stdout.splitlines()
    if not printed or printed[0] != BEGUN:
        raise Unavailable(f"math-verify could not compare answers: {_reason(execution)}")
    cpu_time = duration_from_proto(execution.cpu_time) if execution.HasField("cpu_time") else None
    if execution.verdict != verdict_pb2.VERDICT_PASSED or len(printed) < 2:
        verdict = verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
        ended = "FAILED" if verdict in ("PASSED", "RUNTIME_ERROR") else verdict
        return Grade(ended, 0, 1, "its answer could not be compared", cpu_time=cpu_time)
    found = json.loads(printed[1])
    if found["right"]:
        return Grade("PASSED", 1, 1, cpu_time=cpu_time, by_values=True)
    return Grade("FAILED", 0, 1, f"gave {found['read'] or 'no answer'}", cpu_time=cpu_time, by_values=True)


def _program(problem: Problem, answer: str) -> pb.Program:
    given = {"accepted": problem.answers, "answer": answer.encode("utf-8", "replace").decode()}
    return pb.Program(
        id=problem.id,
        source=_SOURCE,
        stdin=json.dumps(given),
        runtime=RUNTIME,
        limits=problem_pb2.Limits(cpu_time=duration_to_proto(CPU_TIME)),
    )


def _reason(execution: pb.Execution) -> str:
    return (execution.stderr.strip().splitlines() or [execution.detail or "it ended early"])[-1][:300]
