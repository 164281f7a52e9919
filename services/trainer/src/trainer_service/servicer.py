"""gRPC in: unpack, call, pack."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from ratchet.trainer.v1 import job_report_pb2, job_report_pb2_grpc, trainer_pb2_grpc
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.faults import Faults
from ratchet_kit.interceptors import actor
from ratchet_kit.server import Context
from ratchet_kit.text import clip
from trainer_service import convert
from trainer_service.domain.cluster.scheduler import Scheduler
from trainer_service.domain.create.following import Following
from trainer_service.domain.create.runs import Runs
from trainer_service.domain.run.run import RunId
from trainer_service.domain.run.samples import Samples
from trainer_service.domain.work.registration import Exporting
from trainer_service.domain.work.reports import Reports


class TrainerServicer(trainer_pb2_grpc.TrainerServiceServicer):
    """ratchet.trainer.v1.TrainerService over `Runs`, `Exporting`, `Samples` and `Scheduler`."""

    def __init__(self, runs: Runs, exporting: Exporting, samples: Samples, scheduler: Scheduler) -> None:
        self._runs = runs
        self._scheduler = scheduler
        self._exporting = exporting
        self._samples = samples

    async def CreateRun(self, request: pb.CreateRunRequest, context: Context) -> pb.CreateRunResponse:
        faults = Faults().under("spec")
        spec = convert.spec_from_proto(request.spec, faults)
        run = await self._runs.create(request.request_id, spec, faults, actor(), validate_only=request.validate_only)
        return pb.CreateRunResponse(run=convert.run_to_proto(run))

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        return pb.GetRunResponse(run=convert.run_to_proto(await self._runs.get(RunId(request.id))))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        page = await self._runs.page(request.page_size, request.page_token, convert.filter_from_proto(request))
        return convert.runs_to_proto(page)

    async def CancelRun(self, request: pb.CancelRunRequest, context: Context) -> pb.CancelRunResponse:
        return pb.CancelRunResponse(run=convert.run_to_proto(await self._runs.cancel(RunId(request.id), actor())))

    async def ResumeRun(self, request: pb.ResumeRunRequest, context: Context) -> pb.ResumeRunResponse:
        return pb.ResumeRunResponse(run=convert.run_to_proto(await self._runs.resume(RunId(request.id), actor())))

    async def DeleteRun(self, request: pb.DeleteRunRequest, context: Context) -> pb.DeleteRunResponse:
        await self._runs.delete(RunId(request.id))
        return pb.DeleteRunResponse()

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

    async def ExportCheckpoint(
        self, request: pb.ExportCheckpointRequest, context: Context
    ) -> pb.ExportCheckpointResponse:
        id = RunId(request.run_id)
        version = await self._exporting.export(request.request_id, id, request.step, request.model)
        return pb.ExportCheckpointResponse(version=refs.version_to_proto(version))

    async def ListTrainingSamples(
        self, request: pb.ListTrainingSamplesRequest, context: Context
    ) -> pb.ListTrainingSamplesResponse:
        wanted = convert.wanted_from_proto(request)
        page = await self._samples.page(RunId(request.run_id), wanted, request.page_size, request.page_token)
        return convert.samples_to_proto(page)

    async def GetTrainingSample(
        self, request: pb.GetTrainingSampleRequest, context: Context
    ) -> pb.GetTrainingSampleResponse:
        sample = await self._samples.get(RunId(request.run_id), request.id, record=request.record or request.tokens)
        return await asyncio.to_thread(convert.with_record, sample, tokens=request.tokens)

    async def ListRunFiles(self, request: pb.ListRunFilesRequest, context: Context) -> pb.ListRunFilesResponse:
        page = await self._runs.files(RunId(request.run_id), request.page_size, request.page_token)
        return convert.files_to_proto(page)

    async def ReadRunFile(self, request: pb.ReadRunFileRequest, context: Context) -> pb.ReadRunFileResponse:
        data, size = await self._runs.read(RunId(request.run_id), request.name, request.offset)
        return pb.ReadRunFileResponse(data=data, size_bytes=size)

    async def GetCluster(self, request: pb.GetClusterRequest, context: Context) -> pb.GetClusterResponse:
        return pb.GetClusterResponse(cluster=convert.cluster_to_proto(await self._scheduler.cluster()))


class JobReportServicer(job_report_pb2_grpc.JobReportServiceServicer):
    """ratchet.trainer.v1.JobReportService over `Reports` and `Following`."""

    def __init__(self, reports: Reports, following: Following) -> None:
        self._reports = reports
        self._following = following

    async def ReportStarted(
        self, request: job_report_pb2.ReportStartedRequest, context: Context
    ) -> job_report_pb2.ReportStartedResponse:
        await self._reports.started(RunId(request.run_id), request.attempt)
        return job_report_pb2.ReportStartedResponse()

    async def ReportHeartbeat(
        self, request: job_report_pb2.ReportHeartbeatRequest, context: Context
    ) -> job_report_pb2.ReportHeartbeatResponse:
        waits_for = clip(request.waits_for, 500)
        reply = await self._reports.heartbeat(
            RunId(request.run_id), request.attempt, waits_for, convert.usage_of(request)
        )
        return job_report_pb2.ReportHeartbeatResponse(preempted=reply.preempted)

    async def ReportPhase(
        self, request: job_report_pb2.ReportPhaseRequest, context: Context
    ) -> job_report_pb2.ReportPhaseResponse:
        if phase := convert.phase_from_proto(request.phase):
            await self._reports.phase(RunId(request.run_id), request.attempt, phase)
        return job_report_pb2.ReportPhaseResponse()

    async def ReportStep(
        self, request: job_report_pb2.ReportStepRequest, context: Context
    ) -> job_report_pb2.ReportStepResponse:
        reply = await self._reports.step(
            RunId(request.run_id), convert.step_from_proto(request), convert.usage_of(request)
        )
        return job_report_pb2.ReportStepResponse(cancelled=reply.cancelled)

    async def FollowProblems(
        self, request: job_report_pb2.FollowProblemsRequest, context: Context
    ) -> job_report_pb2.FollowProblemsResponse:
        drawn = await self._following.drawn(RunId(request.run_id), request.attempt, request.step)
        return job_report_pb2.FollowProblemsResponse(drawn=map(convert.drawn_to_proto, drawn))

    async def ReportCheckpoint(
        self, request: job_report_pb2.ReportCheckpointRequest, context: Context
    ) -> job_report_pb2.ReportCheckpointResponse:
        checkpoint = convert.checkpoint_from_proto(request.checkpoint)
        await self._reports.checkpoint(RunId(request.run_id), request.attempt, checkpoint)
        return job_report_pb2.ReportCheckpointResponse()

    async def ReportFinished(
        self, request: job_report_pb2.ReportFinishedRequest, context: Context
    ) -> job_report_pb2.ReportFinishedResponse:
        await self._reports.finished(
            RunId(request.run_id), request.attempt, convert.failure_of(request), convert.usage_of(request)
        )
        return job_report_pb2.ReportFinishedResponse()
