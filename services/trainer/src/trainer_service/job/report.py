"""What the job tells trainer-service about itself. A job that is no longer wanted learns it from the answers."""

from collections.abc import Mapping
from datetime import timedelta

import grpc
from google.protobuf import timestamp_pb2

from ratchet.trainer.v1 import trainer_pb2, trainer_pb2_grpc
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.retry import patiently
from trainer_service.job.background import Background
from trainer_service.job.checkpoints import Export

CALL_DEADLINE_S = 20


class Stopped(Exception):
    """The service does not want this job to go on."""


class Cancelled(Stopped):
    """The run was cancelled."""


class Superseded(Stopped):
    """A newer attempt has taken over, or the run has ended: nothing of it is this job's any more."""


class Reporter:
    """Sends the reports of one attempt, in order, each until it is received. Called from the main thread.

    Every method raises Superseded when the attempt is stale, and a transient error when the service could not be
    reached for `patience`.
    """

    def __init__(
        self, background: Background, channel: grpc.aio.Channel, run_id: str, attempt: int, patience: timedelta
    ) -> None:
        self._background = background
        self._stub = trainer_pb2_grpc.JobReportServiceStub(channel)
        self._run_id = run_id
        self._attempt = attempt
        self._patience = patience

    def started(self) -> None:
        self._send("ReportStarted", trainer_pb2.ReportStartedRequest(run_id=self._run_id, attempt=self._attempt))

    def step(self, number: int, metrics: Mapping[str, float], policy_id: str, platform_faults: int) -> None:
        """Also raises Cancelled when the run was cancelled."""
        step = trainer_pb2.Step(number=number, metrics=metrics, policy_id=policy_id, time=_now(), attempt=self._attempt)
        reply = self._send(
            "ReportStep",
            trainer_pb2.ReportStepRequest(
                run_id=self._run_id, attempt=self._attempt, step=step, platform_faults=platform_faults
            ),
        )
        if reply.cancelled:
            raise Cancelled("the run was cancelled")

    def checkpoint(self, export: Export) -> None:
        checkpoint = trainer_pb2.Checkpoint(
            step=export.step,
            uri=str(export.path),
            policy_id=export.policy_id,
            validation_score=export.validation_score,
            time=_now(),
        )
        self._send(
            "ReportCheckpoint",
            trainer_pb2.ReportCheckpointRequest(run_id=self._run_id, attempt=self._attempt, checkpoint=checkpoint),
        )

    def finished(self, error: str = "") -> None:
        """`error`: one sentence on why the run failed; empty when it did all its steps."""
        self._send(
            "ReportFinished",
            trainer_pb2.ReportFinishedRequest(run_id=self._run_id, attempt=self._attempt, error=error),
        )

    def _send(self, method: str, request: object) -> trainer_pb2.ReportStepResponse:
        async def call() -> trainer_pb2.ReportStepResponse:
            with rpc_errors():
                return await getattr(self._stub, method)(request, timeout=CALL_DEADLINE_S)

        try:
            return self._background.wait(patiently(call, self._patience, method))
        except FailedPrecondition as error:
            raise Superseded(error.message) from error


def _now() -> timestamp_pb2.Timestamp:
    now = timestamp_pb2.Timestamp()
    now.GetCurrentTime()
    return now
