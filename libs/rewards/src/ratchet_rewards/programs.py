"""A problem and a completion to the program that the sandbox grades."""

from datetime import timedelta

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit.times import duration_to_proto
from ratchet_problems.problem import CallTest, CheckTest, Problem, StdioTest
from ratchet_rewards.extraction import defines, extract_code


def program_for(
    problem: Problem, completion: str, *, program_id: str = "", cpu_time: timedelta | None = None, memory_bytes: int = 0
) -> pb.Program:
    """The completion's code with the problem's tests. Limits that aren't given are the sandbox's defaults.

    Where the prompt is itself the beginning of the program (as in HumanEval: signature and docstring) and the
    completion doesn't define the entry point anew, the program is both together.
    """
    limits = pb.Limits(memory_bytes=memory_bytes)
    if cpu_time is not None:
        limits.cpu_time.CopyFrom(duration_to_proto(cpu_time))
    return pb.Program(
        id=program_id or problem.id,
        source=source_for(problem.prompt, problem.entry_point, completion),
        entry_point=problem.entry_point,
        tests=[_test(test) for test in problem.tests],
        limits=limits,
    )


def source_for(prompt: str, entry_point: str, completion: str) -> str:
    """The program that a completion means. Where the prompt begins it and the completion goes on, both together."""
    code = extract_code(completion, entry_point)
    if entry_point and not defines(code, entry_point) and defines(prompt, entry_point):
        return extract_code(prompt + code, entry_point)
    return code


def _test(test: CallTest | StdioTest | CheckTest) -> pb.Test:
    match test:
        case CallTest():
            return pb.Test(call=pb.CallTest(args=test.args, expected=test.expected, tolerance=test.tolerance))
        case StdioTest():
            return pb.Test(stdio=pb.StdioTest(stdin=test.stdin, expected_stdout=test.expected_stdout))
        case CheckTest():
            return pb.Test(check=pb.CheckTest(code=test.code))
