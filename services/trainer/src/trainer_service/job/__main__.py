"""`python -m trainer_service.job`: one attempt of one run, as the environment variable RATCHET_JOB describes it.

Exit status: 0 when the run has all its steps, or is no longer wanted; 1 when it failed, after saying so to the service;
75 (EX_TEMPFAIL) when it lost one of its processes. Then, as when it is killed itself, it has said nothing, and the
service starts the next attempt.
"""

import contextlib
import os
import sys
import time
import warnings

import grpc
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    WorkerCrashedError,
)

import ratchet_rewards
from ratchet.trainer.v1 import trainer_pb2
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client, logs
from ratchet_kit.errors import RatchetError
from trainer_service.job.background import Background
from trainer_service.job.checkpoints import Checkpoints
from trainer_service.job.config import JobConfig
from trainer_service.job.overrides import environment
from trainer_service.job.policy import PolicyClient, PolicySettings
from trainer_service.job.report import Reporter, Stopped
from trainer_service.job.runtime import connect_ray
from trainer_service.job.session import Session

# Waits double from 0.2 s: a sandbox that is away for 25 s costs no sample.
GRADING_ATTEMPTS = 8

LOST = os.EX_TEMPFAIL

log = logs.get_logger(__name__)


def main() -> int:
    started = time.monotonic()
    job = JobConfig.from_env()
    logs.configure("trainer-job")
    logs.bind(run_id=job.run_id, attempt=job.attempt)
    # verl reads its environment when it is imported, which the trainers do.
    os.environ.update(environment(job))
    job.work_dir.mkdir(parents=True, exist_ok=True)
    os.chdir(job.work_dir)
    unfinished = Checkpoints(job.work_dir).latest() != job.run_spec().steps
    if unfinished:
        # First of all: a local Ray is forked off, which a process with gRPC's threads must not do.
        connect_ray(job)
    with Background() as background, contextlib.ExitStack() as stack:
        clients = contextlib.AsyncExitStack()
        stack.callback(lambda: background.wait(clients.aclose()))
        session = background.wait(_open(job, background, clients))
        try:
            session.reporter.started()
            if unfinished:
                _train(session)
            session.reporter.finished()
        except Stopped as stop:
            log.info("job stopped", reason=str(stop))
            return 0
        except Exception as error:
            if is_lost_process(error):
                log.exception("a process of the job was lost")
                return LOST
            log.exception("run failed")
            session.reporter.finished(error=describe(error))
            return 1
    log.info("run finished", seconds=round(time.monotonic() - started, 1))
    return 0


def is_lost_process(error: BaseException) -> bool:
    """Whether a process of the job was killed, or its machine lost: no fault of the run, the next attempt may do it."""
    match error:
        case ActorDiedError():
            return not error.actor_init_failed
        case ActorUnavailableError() | NodeDiedError() | WorkerCrashedError() | ObjectLostError() | OutOfMemoryError():
            return True
        case _:
            return False


def describe(error: BaseException) -> str:
    """One sentence on why a run failed. An error of ours says it itself; Ray and Hydra wrap what really happened."""
    if isinstance(error, RatchetError):
        return error.message
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, BaseException) and cause is not error:
        return describe(cause)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"


def _train(session: Session) -> None:
    """verl is imported here, when its environment is set."""
    # Other processes have PYTHONWARNINGS from the start.
    warnings.simplefilter("ignore", UserWarning)
    if session.spec.algorithm == trainer_pb2.ALGORITHM_SFT:
        from trainer_service.job import sft

        sft.run(session)
    else:
        # vLLM starts while verl is imported: each takes half a minute.
        loading = session.background.start(session.policy.ensure_loaded())
        from trainer_service.job import rl

        rl.run(session, loading)


async def _open(job: JobConfig, background: Background, clients: contextlib.AsyncExitStack) -> Session:
    """Runs on the background loop, since grpc.aio binds a channel to the loop that it is made on."""

    async def channel(target: str) -> grpc.aio.Channel:
        return await clients.enter_async_context(client.channel(target))

    spec = job.run_spec()
    sandbox = GrpcSandbox(await channel(job.sandbox_target))
    executor = await clients.enter_async_context(Executor(sandbox, attempts=GRADING_ATTEMPTS))
    # SFT has no reward, and grades nothing.
    reward = ratchet_rewards.get(spec.reward.name) if spec.reward.name else None
    return Session(
        job=job,
        spec=spec,
        background=background,
        reporter=Reporter(background, await channel(job.trainer_target), job.run_id, job.attempt, job.patience),
        policy=PolicyClient(await channel(job.rollout_target), PolicySettings.of(job)),
        environment=CodeEnvironment(executor, reward),
        checkpoints=Checkpoints(job.work_dir),
    )


if __name__ == "__main__":
    sys.exit(main())
