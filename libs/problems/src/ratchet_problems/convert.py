"""Tests to protobuf. Pure."""

from ratchet.common.v1 import problem_pb2 as pb
from ratchet_problems.problem import CallTest, CheckTest, StdioTest, TestCase


def test_to_proto(test: TestCase) -> pb.Test:
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
            return pb.Test(check=pb.CheckTest(code=test.code), held_out=test.held_out)
