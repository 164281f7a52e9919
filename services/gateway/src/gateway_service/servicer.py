"""gRPC in. REST calls the same methods in this process, without a context, so that both answer alike."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from gateway_service import convert
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.releases.releases import Releases
from gateway_service.domain.traffic.feedback import Feedback
from gateway_service.domain.traffic.record import ProblemRef
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.gateway.v1 import gateway_pb2_grpc
from ratchet_kit.errors import FieldViolation, InvalidArgument

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any] | None"


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    def __init__(self, completer: Completer, releases: Releases, feedback: Feedback) -> None:
        self._completer = completer
        self._releases = releases
        self._feedback = feedback

    async def Complete(self, request: pb.CompleteRequest, context: Context = None) -> pb.CompleteResponse:
        completion = await self._completer.complete(convert.completion_request_from_proto(request))
        return convert.completion_to_proto(completion)

    async def StreamComplete(
        self, request: pb.StreamCompleteRequest, context: Context = None
    ) -> AsyncIterator[pb.StreamCompleteResponse]:
        completion_request = convert.completion_request_from_proto(request.request)
        async with aclosing(self._completer.stream(completion_request)) as deltas:
            async for delta in deltas:
                yield convert.completion_delta_to_proto(delta)

    async def CreateRelease(
        self, request: pb.CreateReleaseRequest, context: Context = None
    ) -> pb.CreateReleaseResponse:
        view = await self._releases.create(request.request_id, convert.release_spec_from_proto(request.spec))
        return pb.CreateReleaseResponse(release=convert.release_to_proto(view))

    async def GetRelease(self, request: pb.GetReleaseRequest, context: Context = None) -> pb.GetReleaseResponse:
        return pb.GetReleaseResponse(release=convert.release_to_proto(await self._releases.get(request.id)))

    async def ListReleases(self, request: pb.ListReleasesRequest, context: Context = None) -> pb.ListReleasesResponse:
        page = await self._releases.page(request.model, request.page_size, request.page_token)
        releases = [convert.release_to_proto(view) for view in page.items]
        return pb.ListReleasesResponse(releases=releases, next_page_token=page.next_page_token)

    async def RollbackRelease(
        self, request: pb.RollbackReleaseRequest, context: Context = None
    ) -> pb.RollbackReleaseResponse:
        view = await self._releases.roll_back(request.id, request.reason)
        return pb.RollbackReleaseResponse(release=convert.release_to_proto(view))

    async def WatchRelease(
        self, request: pb.WatchReleaseRequest, context: Context = None
    ) -> AsyncIterator[pb.WatchReleaseResponse]:
        async for view in self._releases.watch(request.id):
            yield pb.WatchReleaseResponse(release=convert.release_to_proto(view))

    async def CreateFeedback(
        self, request: pb.CreateFeedbackRequest, context: Context = None
    ) -> pb.CreateFeedbackResponse:
        match request.WhichOneof("source"):
            case "score":
                score = await self._feedback.score(request.completion_id, request.score)
            case "problem":
                problem = ProblemRef(request.problem.problem_set, request.problem.problem_id)
                score = await self._feedback.grade(request.completion_id, problem)
            case _:
                text = "must be score or problem"
                raise InvalidArgument(f"the source of feedback {text}", [FieldViolation("source", text)])
        return pb.CreateFeedbackResponse(score=score)
