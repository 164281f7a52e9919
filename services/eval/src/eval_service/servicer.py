"""gRPC in: unpack, call, pack."""

import asyncio
from collections.abc import AsyncIterator

from eval_service import convert
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.preferences import Preferences
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.eval.v1 import eval_pb2_grpc, preference_pb2, preference_pb2_grpc
from ratchet_kit.interceptors import actor
from ratchet_kit.server import Context


class EvalServicer(eval_pb2_grpc.EvalServiceServicer):
    def __init__(self, evaluations: Evaluations) -> None:
        self._evaluations = evaluations

    async def CreateEvaluation(
        self, request: pb.CreateEvaluationRequest, context: Context
    ) -> pb.CreateEvaluationResponse:
        report = await self._evaluations.create(
            convert.spec_from_proto(request.spec),
            request.request_id,
            actor(),
            validate_only=request.validate_only,
            for_gate=request.for_gate,
        )
        return pb.CreateEvaluationResponse(evaluation=convert.report_to_proto(report))

    async def GetEvaluation(self, request: pb.GetEvaluationRequest, context: Context) -> pb.GetEvaluationResponse:
        report = await self._evaluations.get(request.id)
        return pb.GetEvaluationResponse(evaluation=convert.report_to_proto(report))

    async def ListEvaluations(self, request: pb.ListEvaluationsRequest, context: Context) -> pb.ListEvaluationsResponse:
        only = convert.evaluation_filter_from_proto(request)
        page = (await self._evaluations.page(request.page_size, request.page_token, only)).map(convert.report_to_proto)
        return pb.ListEvaluationsResponse(evaluations=page.items, next_page_token=page.next_page_token)

    async def CancelEvaluation(
        self, request: pb.CancelEvaluationRequest, context: Context
    ) -> pb.CancelEvaluationResponse:
        report = await self._evaluations.cancel(request.id)
        return pb.CancelEvaluationResponse(evaluation=convert.report_to_proto(report))

    async def DeleteEvaluation(
        self, request: pb.DeleteEvaluationRequest, context: Context
    ) -> pb.DeleteEvaluationResponse:
        await self._evaluations.delete(request.id)
        return pb.DeleteEvaluationResponse()

    async def WatchEvaluation(
        self, request: pb.WatchEvaluationRequest, context: Context
    ) -> AsyncIterator[pb.WatchEvaluationResponse]:
        async for report in self._evaluations.watch(request.id):
            yield pb.WatchEvaluationResponse(evaluation=convert.report_to_proto(report))

    async def ListSamples(self, request: pb.ListSamplesRequest, context: Context) -> pb.ListSamplesResponse:
        only = convert.filter_from_proto(request)
        page = await self._evaluations.sample_page(request.evaluation_id, request.page_size, request.page_token, only)
        samples = page.map(convert.sample_to_proto)
        return pb.ListSamplesResponse(samples=samples.items, next_page_token=samples.next_page_token)

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Context) -> pb.GetEpisodeResponse:
        key = (request.benchmark, request.problem_id, request.index)
        sample = await self._evaluations.episode(request.evaluation_id, *key)
        return await asyncio.to_thread(convert.episode_to_proto, sample, tokens=request.tokens)

    async def GetMeasuredProblem(
        self, request: pb.GetMeasuredProblemRequest, context: Context
    ) -> pb.GetMeasuredProblemResponse:
        shown = await self._evaluations.problem(request.evaluation_id, request.benchmark, request.problem_id)
        return convert.shown_to_proto(shown)

    async def AddSamples(self, request: pb.AddSamplesRequest, context: Context) -> pb.AddSamplesResponse:
        report = await self._evaluations.add(request.evaluation_id, convert.imported_from_proto(request))
        return pb.AddSamplesResponse(evaluation=convert.report_to_proto(report))

    async def CompareEvaluations(
        self, request: pb.CompareEvaluationsRequest, context: Context
    ) -> pb.CompareEvaluationsResponse:
        question = convert.question_from_proto(request)
        comparisons = await self._evaluations.compare(request.baseline_id, request.candidate_id, question)
        return convert.comparisons_to_proto(comparisons)

    async def GetMeasurements(self, request: pb.GetMeasurementsRequest, context: Context) -> pb.GetMeasurementsResponse:
        found = await self._evaluations.measurements(request.evaluation_id)
        own = await self._evaluations.fingerprints(request.evaluation_id)
        return pb.GetMeasurementsResponse(measurements=map(convert.measurement_to_proto, found), fingerprints=own)

    async def PlanComparison(self, request: pb.PlanComparisonRequest, context: Context) -> pb.PlanComparisonResponse:
        planned = await self._evaluations.plan(request.baseline_id, convert.plan_from_proto(request))
        return pb.PlanComparisonResponse(
            detectable_difference=planned.detectable_difference,
            problems=planned.problems,
            samples_per_problem=planned.samples_per_problem,
        )


class PreferenceServicer(preference_pb2_grpc.PreferenceServiceServicer):
    def __init__(self, preferences: Preferences) -> None:
        self._preferences = preferences

    async def CreatePair(
        self, request: preference_pb2.CreatePairRequest, context: Context
    ) -> preference_pb2.CreatePairResponse:
        pair = await self._preferences.create(convert.pairing_from_proto(request), request.request_id)
        return preference_pb2.CreatePairResponse(pair=convert.pair_to_proto(pair))

    async def VotePair(
        self, request: preference_pb2.VotePairRequest, context: Context
    ) -> preference_pb2.VotePairResponse:
        pair = await self._preferences.vote(request.id, convert.choice_from_proto(request))
        return preference_pb2.VotePairResponse(pair=convert.pair_to_proto(pair))

    async def ListPairs(
        self, request: preference_pb2.ListPairsRequest, context: Context
    ) -> preference_pb2.ListPairsResponse:
        page = await self._preferences.page(request.page_size, request.page_token, request.evaluation_id)
        pairs = page.map(convert.pair_to_proto)
        return preference_pb2.ListPairsResponse(pairs=pairs.items, next_page_token=pairs.next_page_token)

    async def RankEvaluations(
        self, request: preference_pb2.RankEvaluationsRequest, context: Context
    ) -> preference_pb2.RankEvaluationsResponse:
        ranks = await self._preferences.rank(*convert.ranking_from_proto(request))
        votes = sum(rank.votes for rank in ranks) // 2
        return preference_pb2.RankEvaluationsResponse(ranks=map(convert.rank_to_proto, ranks), votes=votes)
