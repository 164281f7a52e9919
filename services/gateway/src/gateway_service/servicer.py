"""gRPC in. REST calls the same methods in this process, without a context, so that both answer alike."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from gateway_service import convert
from gateway_service.domain.completing import Completer
from gateway_service.domain.feedback import Feedback
from gateway_service.domain.release_desk import ReleaseDesk
from gateway_service.domain.traffic import ProblemRef
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.gateway.v1 import gateway_pb2_grpc
from ratchet_kit.errors import FieldViolation, InvalidArgument

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any] | None"


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    def __init__(self, completer: Completer, releases: ReleaseDesk, feedback: Feedback) -> None:
        self._completer = completer
        self._releases = releases
        self._feedback = feedback

    async def Complete(self, request: pb.CompleteRequest, context: Context = None) -> pb.CompleteResponse:
        return convert.answer_to_proto(await self._completer.complete(convert.completion_request(request)))

    async def StreamComplete(
        self, request: pb.StreamCompleteRequest, context: Context = None
    ) -> AsyncIterator[pb.StreamCompleteResponse]:
        async with aclosing(self._completer.stream(convert.completion_request(request.request))) as pieces:
            async for piece in pieces:
                yield convert.answer_delta_to_proto(piece)

    async def CreateRelease(
        self, request: pb.CreateReleaseRequest, context: Context = None
    ) -> pb.CreateReleaseResponse:
        view = await self._releases.create(request.request_id, convert.release_spec(request.spec))
        return pb.CreateReleaseResponse(release=convert.release_to_proto(view))

    async def GetRelease(self, request: pb.GetReleaseRequest, context: Context = None) -> pb.GetReleaseResponse:
        return pb.GetReleaseResponse(release=convert.release_to_proto(await self._releases.get(request.id)))

    async def ListReleases(self, request: pb.ListReleasesRequest, context: Context = None) -> pb.ListReleasesResponse:
        page = await self._releases.list(request.model, request.page_size, request.page_token)
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
