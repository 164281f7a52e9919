"""A task and an answer to the program that the sandbox grades."""

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.task import Limits, Task
from ratchet_kit.times import duration_to_proto
from ratchet_problems.convert import complete, test_to_proto
from ratchet_problems.extraction import program_of
from ratchet_problems.problem import Problem, TestCase


def program_for(task: Task, answer: str, *, program_id: str = "") -> pb.Program:
    """The answer's code with the problem's tests. `program_id` is the problem's unless given."""
    problem = task.problem
    source = answer if task.is_program else program_of(problem, answer)
    return pb.Program(
        id=program_id or problem.id,
        # half a surrogate pair, which a tokenizer may give and no message holds, becomes "?"
        source=source.encode("utf-8", "replace").decode(),
        entry_point=problem.entry_point,
        tests=[_test(test, problem) for test in problem.tests],
        limits=_limits(task.limits),
        language=problem.language,
        runtime=task.runtime,
        processes=task.limits.processes,
    )


def _limits(limits: Limits) -> problem_pb2.Limits:
    message = problem_pb2.Limits(memory_bytes=limits.memory_bytes, output_bytes=limits.output_bytes)
    if limits.cpu_time is not None:
        message.cpu_time.CopyFrom(duration_to_proto(limits.cpu_time))
    return message


def _test(test: TestCase, problem: Problem) -> problem_pb2.Test:
    message = test_to_proto(test)
    if message.WhichOneof("kind") == "check":
        complete(message.check, problem.prompt, problem.entry_point)
    return message
