"""EvaluationSource on eval-service."""

from collections.abc import Sequence

import grpc

from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.statistics import comparison_from_proto
from ratchet_kit.times import timestamp_from_proto
from registry_service.domain.evidence import Comparisons, Evaluation, MeasuredSet, Origin, SetComparison
from registry_service.domain.tries import Look


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
        spec = evaluation.spec
        sets = [entry.problems for entry in spec.suite] or [spec.problems]
        return Evaluation(
            id, evaluation.policy_id, tuple(MeasuredSet(one.name, one.digest) for one in sets), evaluation.settings_id
        )

    async def looks(self, id: str) -> Sequence[Look]:
        with rpc_errors():
            reply = await self._stub.ListMeasurements(eval_pb2.ListMeasurementsRequest(evaluation_id=id))
        return [
            Look(
                one.evaluation_id,
                one.model,
                one.policy_id,
                timestamp_from_proto(one.start_time),
                one.setup,
                one.draw,
                one.problems,
            )
            for one in reply.measurements
        ]

    async def compare(self, baseline_id: str, candidate_id: str, confidence: float, origin: Origin) -> Comparisons:
        request = eval_pb2.CompareEvaluationsRequest(
            baseline_id=baseline_id,
            candidate_id=candidate_id,
            confidence=confidence,
            training_fingerprints=origin.training.fingerprints,
            selection_fingerprints=origin.selection.fingerprints,
        )
        with rpc_errors():
            reply = await self._stub.CompareEvaluations(request)
        return Comparisons(comparison_from_proto(reply.comparison), tuple(map(_set, reply.benchmarks)))


def _set(message: eval_pb2.BenchmarkComparison) -> SetComparison:
    return SetComparison(
        name=message.name,
        comparison=comparison_from_proto(message.comparison),
        unsolved=tuple(message.unsolved),
        tampered_share=message.tampered_share,
        trained_on=message.trained_on,
        selected_on=message.selected_on,
    )
