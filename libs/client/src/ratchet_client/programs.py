"""Programs in the sandbox, one a call, through the gateway: a key of scope `programs` suffices."""

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_client.calls import Call, call
from ratchet_client.resource import Resource, S, unary


class Programs(Resource[S]):
    @unary
    def execute(self, program: pb.Program) -> Call[pb.Execution]:
        """Runs a program, on its tests if it has some. Nothing is kept."""
        return call(pb.ExecuteRequest(program=program), pb.ExecuteResponse, lambda reply: reply.execution)

    @unary
    def grade(self, completion: str, problem: problem_pb2.Problem) -> Call[pb.Execution]:
        """Takes the code out of a model's answer and runs it on the problem's tests."""
        request = pb.GradeRequest(completion=completion, problem=problem)
        return call(request, pb.GradeResponse, lambda reply: reply.execution)

    @unary
    def capabilities(self) -> Call[pb.GetCapabilitiesResponse]:
        """Languages and runtimes of a sandbox node, and how it isolates."""
        return call(pb.GetCapabilitiesRequest(), pb.GetCapabilitiesResponse, lambda reply: reply)
