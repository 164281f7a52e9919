"""The job's reports to trainer-service. From the answers a job learns that it is no longer wanted."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol, TypeVar

import grpc
from google.protobuf import timestamp_pb2

from ratchet.common.v1 import usage_pb2
from ratchet.trainer.v1 import job_report_pb2 as pb
from ratchet.trainer.v1 import job_report_pb2_grpc, trainer_pb2
from ratchet_kit.errors import FailedPrecondition, Failure, NotFound, RatchetError
from ratchet_kit.grpc_errors import failure_to_proto, rpc_errors
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import OUTSIDE, patiently
from ratchet_kit.statistics import estimate_to_proto
from ratchet_kit.usage import Usage, usage_to_proto
from ratchet_kit.work import surviving
from trainer_service.domain.run.run import Phase
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.run.background import Background
from trainer_service.job.run.checkpoints import Export

CALL_DEADLINE_S = 20
EXAMINATION_DEADLINE_S = 120
HEARTBEAT = timedelta(seconds=10)
WAITS = ("time_generate_s", "time_wait_s")
"""Metrics of a step: the time in which ranks had no samples to learn from."""

Request = TypeVar("Request")
Reply = TypeVar("Reply")

log = get_logger(__name__)


class Meter(Protocol):
    """Counts what the attempt uses."""

    def wait(self, seconds: float) -> None:
        """The trainer had to wait for samples."""
        ...

    async def read(self) -> Usage:
        """Until now. Raises nothing."""
        ...


class Stopped(Exception):
    """The job is not to go on."""


class Cancelled(Stopped):
    """The run was cancelled, or a guard has stopped it."""


class Superseded(Stopped):
    """A newer attempt has taken over, or the run has ended: nothing of it is this job's any more."""


class Preempted(Stopped):
    """It has saved, and makes room for a run of higher priority."""


class NodeEnds(Exception):
    """It has saved, since a machine that it runs on is about to end."""


class Reporter:
    """Sends the reports of one attempt, in order, each until it is received. Called from the main thread.

    Every method but `phase` raises Superseded when the attempt is stale, and a transient error when the service could
    not be reached for `patience`.
    """

    def __init__(
        self,
        background: Background,
        channel: grpc.aio.Channel,
        run_id: str,
        attempt: int,
        patience: timedelta,
    ) -> None:
        self._background = background
        self._stub = job_report_pb2_grpc.JobReportServiceStub(channel)
        self._run_id = run_id
        self._attempt = attempt
        self._patience = patience
        self.usage: Meter | None = None
        """Said with each heartbeat, each step and the end."""
        self._phase: Phase | None = None
        self._sending_phase = asyncio.Lock()
        self._over = False
        self.has_stepped = False
        """Whether the attempt has done a step."""
        self.preempted = False
        """Whether it is to save and end after the step under way, by the last answer to a heartbeat."""
        self.waits_for = ""
        """What it cannot go on without; the next heartbeat says it."""

    def started(self) -> None:
        self._send(self._stub.ReportStarted, pb.ReportStartedRequest(run_id=self._run_id, attempt=self._attempt))

    async def beat(self, stop: Callable[[str], None]) -> None:
        """Says every few seconds that the job lives. Once the service answers that the attempt is over, calls `stop`
        with its reason, and returns. Runs on the background loop, whatever the main thread does."""
        request = pb.ReportHeartbeatRequest(run_id=self._run_id, attempt=self._attempt)
        while not self._over:
            request.waits_for = self.waits_for
            with surviving("heartbeat"):
                if self.usage:
                    request.usage.CopyFrom(usage_to_proto(await self.usage.read()))
                try:
                    with rpc_errors():
                        reply = await self._stub.ReportHeartbeat(request, timeout=CALL_DEADLINE_S)
                    self.preempted = reply.preempted
                except (FailedPrecondition, NotFound) as error:
                    if not self._over:  # else the job knows it, and is ending
                        stop(error.message)
                    return
            await asyncio.sleep(HEARTBEAT.total_seconds())

    def phase(self, phase: Phase) -> None:
        """What the job does from now on. Returns at once and raises nothing: a lost one costs nothing."""
        if phase is not self._phase:
            self._phase = phase
            self._background.start(self._send_phase(phase))

    def step(self, number: int, metrics: Mapping[str, float], policy_id: str, platform_faults: int) -> None:
        """Also raises Cancelled when the run was cancelled, or a guard has stopped it."""
        step = trainer_pb2.Step(
            number=number, metrics=metrics, policy_id=policy_id, create_time=_now(), attempt=self._attempt
        )
        request = pb.ReportStepRequest(
            run_id=self._run_id,
            attempt=self._attempt,
            step=step,
            platform_faults=platform_faults,
            usage=self._used(sum(metrics.get(name, 0.0) for name in WAITS)),
        )
        reply = self._send(self._stub.ReportStep, request)
        self.has_stepped = True
        if reply.cancelled:
            self._over = True
            raise Cancelled("the run was cancelled, or a guard has stopped it")

    def drawn(self, step: int) -> list[ProblemSetRef]:
        """The newer versions of its problems that a step draws from, oldest first. The service examines them first,
        which takes some seconds."""
        request = pb.FollowProblemsRequest(run_id=self._run_id, attempt=self._attempt, step=step)
        reply = self._send(self._stub.FollowProblems, request, EXAMINATION_DEADLINE_S)
        sets = [one.problems for one in reply.drawn]
        return [ProblemSetRef(it.name, it.limit if it.HasField("limit") else None, it.digest) for it in sets]

    def checkpoint(self, export: Export) -> None:
        checkpoint = trainer_pb2.Checkpoint(
            step=export.step,
            uri=export.uri,
            policy_id=export.policy_id,
            validation_score=export.validation_score,
            validation=estimate_to_proto(export.interval) if export.interval else None,
            create_time=_now(),
        )
        request = pb.ReportCheckpointRequest(run_id=self._run_id, attempt=self._attempt, checkpoint=checkpoint)
        self._send(self._stub.ReportCheckpoint, request)

    def finished(self, failure: Failure | None = None) -> None:
        """`failure`: the reason that the run failed; None when it did all its steps."""
        self._over = True
        request = pb.ReportFinishedRequest(
            run_id=self._run_id, attempt=self._attempt, failure=failure_to_proto(failure), usage=self._used()
        )
        self._send(self._stub.ReportFinished, request)

    def _used(self, waited: float = 0.0) -> usage_pb2.Usage | None:
        """`waited`: seconds of the step."""
        if self.usage is None:
            return None
        self.usage.wait(waited)
        return usage_to_proto(self._background.wait(self.usage.read()))

    async def _send_phase(self, phase: Phase) -> None:
        """One at a time, so that a slow report arrives before those of later phases; a phase that is over by then is
        not reported any more."""
        async with self._sending_phase:
            if phase is not self._phase:
                return
            value = trainer_pb2.Run.Phase.Value(f"PHASE_{phase.name}")
            request = pb.ReportPhaseRequest(run_id=self._run_id, attempt=self._attempt, phase=value)
            try:
                with rpc_errors():
                    await self._stub.ReportPhase(request, timeout=CALL_DEADLINE_S)
            except RatchetError as error:
                log.debug("phase.not_reported", phase=phase.value, reason=error.message)

    def _send(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Reply]",
        request: Request,
        deadline_s: float = CALL_DEADLINE_S,
    ) -> Reply:
        async def call() -> Reply:
            with rpc_errors():
                return await method(request, timeout=deadline_s)

        try:
            # INTERNAL too: what the service met with may be mended, and the job has days of work to lose.
            return self._background.wait(patiently(call, self._patience, type(request).__name__, OUTSIDE))
        except FailedPrecondition as error:
            self._over = True
            raise Superseded(error.message) from error


def _now() -> timestamp_pb2.Timestamp:
    now = timestamp_pb2.Timestamp()
    now.GetCurrentTime()
    return now
