"""The one door from `job/__main__` to verl and Ray."""

import os
import warnings

from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    WorkerCrashedError,
)

from ratchet_kit.errors import Failure, RatchetError
from trainer_service.domain.run import Phase
from trainer_service.job.config import JobConfig
from trainer_service.job.session import Session
from trainer_service.job.verl import runtime
from trainer_service.job.verl.config import environment


def set_environment(job: JobConfig) -> None:
    """Call this first: verl reads its environment when it is imported."""
    os.environ.update(environment(job))


def connect(job: JobConfig) -> None:
    """Joins the cluster of RAY_ADDRESS, or starts a local one that ends with this process."""
    runtime.connect(job)


def train(session: Session) -> None:
    """Trains to the last step. Raises what ends the run, and `report.Stopped` when it is not to go on."""
    # Other processes have PYTHONWARNINGS from the start.
    warnings.simplefilter("ignore", UserWarning)
    session.reporter.phase(Phase.LOADING_MODEL)
    # verl is imported here, when its environment is set.
    if session.job.algorithm.takes_examples:
        from trainer_service.job.verl.driver import sft

        sft.run(session)
    else:
        # vLLM starts while verl is imported: each takes half a minute.
        loading = session.background.start(session.policy.ensure_loaded())
        from trainer_service.job.verl.driver import rl

        rl.run(session, loading)


def is_lost_process(error: BaseException) -> bool:
    """Whether a process of the job was killed, or its machine lost: no fault of the run, the next attempt may do it."""
    match error:
        case ActorDiedError():
            return not error.actor_init_failed
        case ActorUnavailableError() | NodeDiedError() | WorkerCrashedError() | ObjectLostError() | OutOfMemoryError():
            return True
        case _:
            return False


def failure_of(error: BaseException) -> Failure:
    """The reason that a run failed: an error of ours has it; Ray and Hydra wrap the real one."""
    if isinstance(error, RatchetError):
        return Failure.of(error)
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, BaseException) and cause is not error:
        return failure_of(cause)
    lines = str(error).strip().splitlines()
    return Failure("INTERNAL", f"{type(error).__name__}: {lines[-1] if lines else 'no message'}")
