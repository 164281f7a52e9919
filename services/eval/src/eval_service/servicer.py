"""gRPC in: unpack, call, pack."""

from collections.abc import AsyncIterator
from typing import Any

from eval_service.convert import comparison_to_proto, report_to_proto, sample_to_proto, spec_from_proto
from eval_service.domain.evaluations import Evaluations
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.eval.v1 import eval_pb2_grpc


class EvalServicer(eval_pb2_grpc.EvalServiceServicer):
    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations

    async def CreateEvaluation(self, request: pb.CreateEvaluationRequest, context: Any) -> pb.CreateEvaluationResponse:
        report = await self._evaluations.create(spec_from_proto(request.spec), request.request_id)
        return pb.CreateEvaluationResponse(evaluation=report_to_proto(report))

    async def GetEvaluation(self, request: pb.GetEvaluationRequest, context: Any) -> pb.GetEvaluationResponse:
        return pb.GetEvaluationResponse(evaluation=report_to_proto(await self._evaluations.get(request.id)))

    async def ListEvaluations(self, request: pb.ListEvaluationsRequest, context: Any) -> pb.ListEvaluationsResponse:
        page = (await self._evaluations.list(request.page_size, request.page_token)).map(report_to_proto)
        return pb.ListEvaluationsResponse(evaluations=page.items, next_page_token=page.next_page_token)

    async def CancelEvaluation(self, request: pb.CancelEvaluationRequest, context: Any) -> pb.CancelEvaluationResponse:
        return pb.CancelEvaluationResponse(evaluation=report_to_proto(await self._evaluations.cancel(request.id)))

    async def WatchEvaluation(
        self, request: pb.WatchEvaluationRequest, context: Any
    ) -> AsyncIterator[pb.WatchEvaluationResponse]:
        async for report in self._evaluations.watch(request.id):
            yield pb.WatchEvaluationResponse(evaluation=report_to_proto(report))

    async def ListSamples(self, request: pb.ListSamplesRequest, context: Any) -> pb.ListSamplesResponse:
        page = await self._evaluations.list_samples(request.evaluation_id, request.page_size, request.page_token)
        samples = page.map(sample_to_proto)
        return pb.ListSamplesResponse(samples=samples.items, next_page_token=samples.next_page_token)

    async def CompareEvaluations(
        self, request: pb.CompareEvaluationsRequest, context: Any
    ) -> pb.CompareEvaluationsResponse:
        comparison = await self._evaluations.compare(request.baseline_id, request.candidate_id)
        return pb.CompareEvaluationsResponse(comparison=comparison_to_proto(comparison))
