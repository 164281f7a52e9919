"""EvaluationSource on eval-service."""

import grpc

from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.statistics import Comparison, comparison_from_proto
from registry_service.domain.gate import Evaluation


class GrpcEvaluationSource:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = eval_pb2_grpc.EvalServiceStub(channel)

    async def get(self, id: str) -> Evaluation:
        with rpc_errors():
            reply = await self._stub.GetEvaluation(eval_pb2.GetEvaluationRequest(id=id))
        evaluation = reply.evaluation
        if evaluation.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
            state = eval_pb2.Evaluation.State.Name(evaluation.state).removeprefix("STATE_")
            raise FailedPrecondition(f"evaluation {id} is {state}; a gate needs one that SUCCEEDED")
        problems = evaluation.spec.problems
        return Evaluation(id, evaluation.policy_id, problems.name, problems.digest)

    async def compare(self, baseline_id: str, candidate_id: str) -> Comparison:
        request = eval_pb2.CompareEvaluationsRequest(baseline_id=baseline_id, candidate_id=candidate_id)
        with rpc_errors():
            return comparison_from_proto((await self._stub.CompareEvaluations(request)).comparison)
