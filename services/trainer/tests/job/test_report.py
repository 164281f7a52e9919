"""A job's reports over a service in this process."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from ratchet.trainer.v1 import job_report_pb2 as pb
from ratchet.trainer.v1 import job_report_pb2_grpc, trainer_pb2
from ratchet_kit import client
from ratchet_kit.errors import ResourceExhausted
from ratchet_testing.services import serving
from trainer_service.domain.run.run import Phase
from trainer_service.job.run import report
from trainer_service.job.run.background import Background
from trainer_service.job.run.report import Cancelled, Reporter, Superseded
from trainer_service.job.session import Session


class Service(job_report_pb2_grpc.JobReportServiceServicer):
    """Knows attempt 2."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.waits_for: list[str] = []
        self.away = False
        self.cancelled = False
        self.preempted = False
        self.phases: list[str] = []

    async def ReportHeartbeat(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportHeartbeatResponse:
        self.heartbeats += 1
        self.waits_for.append(request.waits_for)
        if self.away:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the database is away")
        await self._fence(request, context)
        return pb.ReportHeartbeatResponse(preempted=self.preempted)

    async def ReportStep(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportStepResponse:
        await self._fence(request, context)
        return pb.ReportStepResponse(cancelled=self.cancelled)

    async def ReportPhase(self, request: Any, context: grpc.aio.ServicerContext) -> pb.ReportPhaseResponse:
        if not self.phases:
            await asyncio.sleep(0.1)  # the first is slow
        self.phases.append(trainer_pb2.Run.Phase.Name(request.phase))
        return pb.ReportPhaseResponse()

    async def _fence(self, request: Any, context: grpc.aio.ServicerContext) -> None:
        if request.attempt != 2:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"attempt {request.attempt} is stale")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture
def build(service: Service, background: Background, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(report, "HEARTBEAT", timedelta(milliseconds=5))

    def add(server: grpc.aio.Server) -> list[str]:
        job_report_pb2_grpc.add_JobReportServiceServicer_to_server(service, server)
        return ["ratchet.trainer.v1.JobReportService"]

    served = serving(add)

    async def open_channel() -> grpc.aio.Channel:
        return await client.channel(await served.__aenter__()).__aenter__()

    channel = background.wait(open_channel())
    yield lambda attempt: Reporter(background, channel, "run_1", attempt, timedelta(seconds=1))
    background.wait(channel.close())
    background.wait(served.__aexit__(None, None, None))


def wait_for(background: Background, holds: Any) -> None:
    async def wait() -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0.005)

    background.wait(wait())


def test_a_job_says_that_it_lives_whether_it_is_heard_or_not(build: Any, service: Service, background: Background):
    reasons: list[str] = []
    beating = background.start(build(2).beat(reasons.append))
    wait_for(background, lambda: service.heartbeats > 2)
    service.away = True
    heard = service.heartbeats
    wait_for(background, lambda: service.heartbeats > heard + 1)
    assert (reasons, beating.done()) == ([], False)


def test_a_heartbeat_that_breaks_is_not_the_last_one(
    service: Service, build: Any, background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = build(2)
    broken = Mock(side_effect=ValueError("whatever it is"))
    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(report, "rpc_errors", broken)
        background.start(reporter.beat(pytest.fail))
        wait_for(background, lambda: broken.called)
    wait_for(background, lambda: service.heartbeats > 1)


def test_a_job_says_what_it_waits_for_as_long_as_it_does(
    build: Any, service: Service, background: Background, tmp_path: Path
) -> None:
    reporter, tries = build(2), 0

    def room() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ResourceExhausted("the disk has 1 GiB and needs 2")

    session = Session(
        *(Mock(patience=timedelta(seconds=30), work_dir=tmp_path), Mock(), background, reporter),
        *(Mock(), Mock(), Mock(), Mock(require_space=room), Mock(), Mock()),
    )
    background.start(reporter.beat(pytest.fail))
    session.require_space()
    after = len(service.waits_for)
    wait_for(background, lambda: len(service.waits_for) > after + 1)
    said = "space for a checkpoint: the disk has 1 GiB and needs 2"
    assert (set(service.waits_for), service.waits_for[-1]) == ({"", said}, "")


def test_a_job_whose_attempt_is_over_is_stopped(build: Any, background: Background):
    reasons: list[str] = []
    background.wait(build(1).beat(reasons.append))
    assert reasons == ["attempt 1 is stale"]


def test_a_job_that_is_ending_is_not_stopped(build: Any, service: Service, background: Background):
    reasons: list[str] = []
    stale, cancelled = build(1), build(2)
    with pytest.raises(Superseded):
        stale.step(1, {}, "sha256:1", 0)
    background.wait(stale.beat(reasons.append))
    service.cancelled = True
    assert not cancelled.has_stepped
    with pytest.raises(Cancelled):
        cancelled.step(1, {}, "sha256:1", 0)
    background.wait(cancelled.beat(reasons.append))
    assert (reasons, cancelled.has_stepped) == ([], True)


def test_phases_are_reported_in_their_order_and_the_last_is_the_present_one(
    build: Any, service: Service, background: Background
):
    reporter = build(2)
    for phase in (Phase.GENERATING, Phase.UPDATING, Phase.VALIDATING):
        reporter.phase(phase)
        time.sleep(0.02)
    wait_for(background, lambda: "PHASE_VALIDATING" in service.phases)
    time.sleep(0.15)
    assert service.phases == ["PHASE_GENERATING", "PHASE_VALIDATING"]


def test_a_heartbeat_says_whether_the_job_makes_room(build: Any, service: Service, background: Background):
    reporter = build(2)
    service.preempted = True
    beating = background.start(reporter.beat(Mock()))
    wait_for(background, lambda: reporter.preempted)
    service.preempted = False  # the other run was cancelled
    wait_for(background, lambda: not reporter.preempted)
    beating.cancel()
