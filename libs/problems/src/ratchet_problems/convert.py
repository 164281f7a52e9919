"""Tests to protobuf, with what their prompt gives. Pure."""

from ratchet.common.v1 import problem_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from ratchet_problems.helpers import declared, with_helpers
from ratchet_problems.problem import AnswerTest, CallTest, CheckTest, StdioTest, TestCase


def complete(check: pb.CheckTest, prompt: str, entry_point: str) -> None:
    """Adds what the prompt gives to test code that is apart from the program: helpers and records, and other classes by
    their names, which are the program's."""
    if check.grading != pb.CheckTest.GRADING_SHARED:
        check.code = with_helpers(check.code, prompt, entry_point)
        check.names.extend(name for name in declared(check.code, prompt, entry_point) if name not in check.names)


def test_to_proto(test: TestCase) -> pb.Test:
    """Raises InvalidArgument for a right answer, which is no test of a program."""
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
            stdio = pb.StdioTest(stdin=test.stdin, expected_stdout=test.expected_stdout, tolerance=test.tolerance)
            return pb.Test(stdio=stdio, held_out=test.held_out)
        case CheckTest():
            grading = pb.CheckTest.GRADING_SHARED if test.shared else pb.CheckTest.GRADING_UNSPECIFIED
            return pb.Test(
                check=pb.CheckTest(code=test.code, names=test.names, grading=grading), held_out=test.held_out
            )
        case AnswerTest():
            raise InvalidArgument("a problem with a right answer is judged without a program: it has no tests to run")
