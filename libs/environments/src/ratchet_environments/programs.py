"""A task and an answer to the program that the sandbox grades."""

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_environments.task import Limits, Task
from ratchet_kit.times import duration_to_proto
from ratchet_problems.extraction import source_for
from ratchet_problems.helpers import with_helpers
from ratchet_problems.problem import CallTest, CheckTest, Problem, StdioTest, TestCase


def program_for(task: Task, answer: str, *, program_id: str = "") -> pb.Program:
    """The answer's code with the problem's tests. `program_id` is the problem's unless given."""
    problem = task.problem
    return pb.Program(
        id=program_id or problem.id,
        source=source_for(problem.prompt, problem.entry_point, answer),
        entry_point=problem.entry_point,
        tests=[_test(test, problem) for test in problem.tests],
        limits=_limits(task.limits),
        runtime=task.runtime,
    )


def _limits(limits: Limits) -> pb.Limits:
    message = pb.Limits(memory_bytes=limits.memory_bytes or 0)
    if limits.cpu_time is not None:
        message.cpu_time.CopyFrom(duration_to_proto(limits.cpu_time))
    return message


def _test(test: TestCase, problem: Problem) -> pb.Test:
    match test:
        case CallTest():
            call = pb.CallTest(
                args=test.args,
                expected=test.expected,
                tolerance=test.tolerance,
                raises=test.raises,
                unordered=test.unordered,
            )
            return pb.Test(call=call, held_out=test.held_out)
        case StdioTest():
            stdio = pb.StdioTest(stdin=test.stdin, expected_stdout=test.expected_stdout)
            return pb.Test(stdio=stdio, held_out=test.held_out)
        case CheckTest():
            code = with_helpers(test.code, problem.prompt, problem.entry_point)
            return pb.Test(check=pb.CheckTest(code=code), held_out=test.held_out)
