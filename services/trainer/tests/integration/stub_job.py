"""Stands in for `python -m trainer_service.verl` where a test is about the service around the job: reports its steps
through JobReportService as the real one does, writes a checkpoint of the base at each, and dies when it should.

The run's display name says how: "die at 2" kills attempt 1 before step 2 is reported, "fail at 2" has it report an
error, "slow" takes a second per step. Between steps it says that it lives, and makes room when it is told to.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

import grpc

from ratchet.common.v1 import failure_pb2
from ratchet.trainer.v1 import job_report_pb2 as pb
from ratchet.trainer.v1 import job_report_pb2_grpc, trainer_pb2
from ratchet_kit.client import channel
from trainer_service.job.run.config import JobConfig


async def send(report: Callable[[Any], Any], request: Any) -> Any:
    """The service may be away for a while."""
    while True:
        try:
            return await report(request)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(0.5)


async def main() -> int:
    job = JobConfig.from_env()
    spec = job.spec
    how = dict(zip(("what", "at", "step"), spec.display_name.split(), strict=False))
    exports = job.work_dir / "exports"
    done = max((int(folder.name) for folder in exports.glob("[0-9]*")), default=0)
    print(f"stub job of {job.run_id}, attempt {job.attempt}, from step {done}", flush=True)
    async with channel(job.trainer_target) as door:
        reports = job_report_pb2_grpc.JobReportServiceStub(door)
        of_run = {"run_id": job.run_id, "attempt": job.attempt}
        await send(reports.ReportStarted, pb.ReportStartedRequest(**of_run))
        for number in range(done + 1, spec.steps + 1):
            await asyncio.sleep(1 if "slow" in spec.display_name else 0.1)
            is_its_time = how.get("step") == str(number) and job.attempt == 1
            if is_its_time and how["what"] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if is_its_time and how["what"] == "fail":
                failure = failure_pb2.Failure(message="the stub should fail")
                await send(reports.ReportFinished, pb.ReportFinishedRequest(**of_run, failure=failure))
                return 1
            metrics = {"reward_mean": number / spec.steps, "time_step_s": 1.0}
            step = trainer_pb2.Step(number=number, metrics=metrics, policy_id=f"sha256:{number}")
            step.create_time.GetCurrentTime()
            reply = await send(reports.ReportStep, pb.ReportStepRequest(**of_run, step=step, platform_faults=1))
            if reply.cancelled:
                return 0
            folder = exports / str(number)
            shutil.copytree(job.base_path, folder)
            checkpoint = trainer_pb2.Checkpoint(
                step=number, uri=str(folder), policy_id=f"sha256:{number}", create_time=step.create_time
            )
            checkpoint.validation_score = 0.5 if number % 2 else 0.25
            await send(reports.ReportCheckpoint, pb.ReportCheckpointRequest(**of_run, checkpoint=checkpoint))
            if (await send(reports.ReportHeartbeat, pb.ReportHeartbeatRequest(**of_run))).preempted:
                return 0
        await send(reports.ReportFinished, pb.ReportFinishedRequest(**of_run))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except grpc.aio.AioRpcError as error:
        sys.exit(f"refused: {error.code().name} {error.details()}")
