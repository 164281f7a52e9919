"""The one door from `__main__` to verl and Ray."""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from ratchet_kit.errors import Failure, RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.permanent import is_permanent
from trainer_service.domain.run.run import Phase
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.report import NodeEnds
from trainer_service.job.session import Session
from trainer_service.verl import folders, runtime
from trainer_service.verl.environment import environment
from trainer_service.verl.out_of_memory import KernelKills, ran_out

if TYPE_CHECKING:
    from trainer_service.verl.reward_model import RewardModel

log = get_logger(__name__)

_nodes: frozenset[str] = frozenset()
_kernel = KernelKills()  # from the start of the job


def set_environment(job: JobConfig) -> None:
    """Call this first: verl reads its environment when it is imported."""
    os.environ.update(environment(job))


def ran_out_of_memory(error: BaseException) -> bool:
    return ran_out(error, kernel_killed=_kernel.any)


def connect(job: JobConfig) -> None:
    """Joins the cluster of RAY_ADDRESS, or starts a local one that ends with this process."""
    global _nodes
    runtime.connect(job)
    _nodes = runtime.alive()


def leave(status: int) -> NoReturn:
    """Ends this process once it has told all. Python would first take apart what is loaded: 1.5 s of a core in which
    the accelerators are held, and which no report of usage has."""
    ray.shutdown()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)


def lost_a_node() -> bool:
    """Whether one of the cluster is gone that was there when the job began: whatever error came of it, the next attempt
    does not meet it again."""
    try:
        return not _nodes <= runtime.alive()
    except Exception:  # noqa: BLE001 (Ray has many; then the cluster itself is gone)
        return True


def train(session: Session) -> None:
    """Trains to the last step. Raises what ends the run, and `report.Stopped` when it is not to go on."""
    # Other processes have PYTHONWARNINGS from the start.
    warnings.simplefilter("ignore", UserWarning)
    runtime.wait_for_room(session.job)
    _served = folders.serve(session.job) if len(runtime.alive()) > 1 else None  # to the end of the training
    session.usage.hold()
    session.reporter.phase(Phase.LOADING_MODEL)
    # verl is imported here, when its environment is set.
    if session.job.algorithm.takes_examples:
        from trainer_service.verl.driver import sft

        _check_base(session.job)
        sft.run(session)
    elif session.job.algorithm.makes_reward_model:
        from trainer_service.verl.driver import reward_model

        _check_base(session.job)
        reward_model.run(session)
    elif session.job.algorithm.takes_pairs:
        validated = session.job.spec.validation_problems is not None
        waited = session.background.start(session.policy.ensure_loaded()) if validated else None
        from trainer_service.verl.driver import dpo

        _check_base(session.job)
        dpo.run(session, waited)
    else:
        # vLLM starts while verl is imported: each takes half a minute.
        loading = session.background.start(session.policy.ensure_loaded())
        from trainer_service.verl.driver import rl

        _check_base(session.job)
        rl.run(session, loading)


def _check_base(job: JobConfig) -> None:
    from trainer_service.verl import base_model  # which imports transformers

    base_model.check(Path(job.base_path), scores=job.algorithm.makes_reward_model)


def reward_model(job: JobConfig) -> "RewardModel | None":
    """That of a component of the reward, to be loaded; None where there is none. Call this after `connect`."""
    if not job.reward_model_path:
        return None
    from trainer_service.verl.reward_model import RewardModel  # which imports torch

    return RewardModel(job)


def ending_node() -> str:
    """The machine of this job that is about to end; empty while none is. Where Ray does not say, none is."""
    try:
        return runtime.ending_node()
    except Exception:
        log.warning("nodes.not_seen", exc_info=True)
        return ""


def is_without_room(error: BaseException) -> bool:
    """True if the cluster has no room for the ranks, or a machine is about to end. Costs the run no attempt."""
    return isinstance(error, runtime.NoRoom | NodeEnds)


def is_final(error: BaseException, has_stepped: bool = False) -> bool:
    """True where another attempt would meet it again (`ratchet_kit.permanent`). All else is tried again, and may be
    over by the next attempt: a process that was killed, a machine that was lost, a full disk or memory, a service that
    was away for too long, a policy that somebody else holds.

    A library's error is permanent where the attempt has not done a step (`has_stepped`): a later one may pass.
    """
    match error:
        case ActorDiedError():
            return error.actor_init_failed and not has_stepped
        case RayTaskError():
            return is_final(error.cause, has_stepped)
        case RatchetError():
            return is_permanent(error)
        case RayError() | OSError(errno=int()) | MemoryError():
            return False
    cause = error.__cause__
    if cause is not None and cause is not error:
        return is_final(cause, has_stepped)
    return not has_stepped and is_permanent(error)


def failure_of(error: BaseException) -> Failure:
    """The reason that a run failed: an error of ours has it; Ray and Hydra wrap the real one."""
    if isinstance(error, RatchetError):
        return Failure.of(error)
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, BaseException) and cause is not error:
        return failure_of(cause)
    lines = str(error).strip().splitlines()
    return Failure("INTERNAL", f"{type(error).__name__}: {lines[-1] if lines else 'no message'}")
