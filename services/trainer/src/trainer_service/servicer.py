"""gRPC in: unpack, call, pack."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2_grpc
from trainer_service import convert
from trainer_service.domain.reports import Reports
from trainer_service.domain.run import RunId
from trainer_service.domain.runs import Runs

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class TrainerServicer(trainer_pb2_grpc.TrainerServiceServicer):
    """ratchet.trainer.v1.TrainerService over `Runs`."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def CreateRun(self, request: pb.CreateRunRequest, context: Context) -> pb.CreateRunResponse:
        run = await self._runs.create(request.request_id, convert.spec_from_proto(request.spec))
        return pb.CreateRunResponse(run=convert.run_to_proto(run))

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        return pb.GetRunResponse(run=convert.run_to_proto(await self._runs.get(RunId(request.id))))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        page = await self._runs.page(request.page_size, request.page_token, convert.state_from_proto(request.state))
        return convert.runs_to_proto(page)

    async def CancelRun(self, request: pb.CancelRunRequest, context: Context) -> pb.CancelRunResponse:
        return pb.CancelRunResponse(run=convert.run_to_proto(await self._runs.cancel(RunId(request.id))))

    async def WatchRun(self, request: pb.WatchRunRequest, context: Context) -> AsyncIterator[pb.WatchRunResponse]:
        async with aclosing(self._runs.watch(RunId(request.id), request.after_step)) as updates:
            async for progress in updates:
                yield convert.progress_to_proto(progress)

    async def ListSteps(self, request: pb.ListStepsRequest, context: Context) -> pb.ListStepsResponse:
        page = await self._runs.steps(RunId(request.run_id), request.page_size, request.page_token)
        return convert.steps_to_proto(page)

    async def ListCheckpoints(self, request: pb.ListCheckpointsRequest, context: Context) -> pb.ListCheckpointsResponse:
        page = await self._runs.checkpoints(RunId(request.run_id), request.page_size, request.page_token)
        return convert.checkpoints_to_proto(page)


class JobReportServicer(trainer_pb2_grpc.JobReportServiceServicer):
    """ratchet.trainer.v1.JobReportService over `Reports`."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    async def ReportStarted(self, request: pb.ReportStartedRequest, context: Context) -> pb.ReportStartedResponse:
        await self._reports.started(RunId(request.run_id), request.attempt)
        return pb.ReportStartedResponse()

    async def ReportStep(self, request: pb.ReportStepRequest, context: Context) -> pb.ReportStepResponse:
        reply = await self._reports.step(RunId(request.run_id), convert.step_from_proto(request))
        return pb.ReportStepResponse(cancelled=reply.cancelled)

    async def ReportCheckpoint(
        self, request: pb.ReportCheckpointRequest, context: Context
    ) -> pb.ReportCheckpointResponse:
        checkpoint = convert.checkpoint_from_proto(request.checkpoint)
        await self._reports.checkpoint(RunId(request.run_id), request.attempt, checkpoint)
        return pb.ReportCheckpointResponse()

    async def ReportFinished(self, request: pb.ReportFinishedRequest, context: Context) -> pb.ReportFinishedResponse:
        await self._reports.finished(RunId(request.run_id), request.attempt, request.error)
        return pb.ReportFinishedResponse()
