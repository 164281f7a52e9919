"""What can happen to a platform while a run trains. A fault raises NothingThere where it finds nothing to happen to."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psutil
import redis

from tests.e2e.conftest import Platform

from .killing import find, flush_redis, kill_vllm, redis_of
from .refusing import be_a_replica, be_full

STOPPED_S = 15.0

Fault = Callable[[Platform], None]


class NothingThere(AssertionError):
    """No process of that kind runs."""


def kill(*words: str) -> Fault:
    """SIGKILL of the processes with these words."""
    return lambda platform: _kill(find(platform, *words), " ".join(words))


def kill_ray_job(platform: Platform) -> None:
    """The job alone: Ray's own processes are modules below `trainer_service.job`, too."""
    jobs = [one for one in find(platform, "trainer_service.job") if "trainer_service.job" in _line(one)]
    _kill(jobs, "job")


def kill_a_rank(platform: Platform) -> None:
    _kill([one for one in find(platform, "ray::") if "WorkerDict" in " ".join(_line(one))], "rank")


def to_redis(state: Callable[["redis.Redis", float], None]) -> Fault:
    def fault(platform: Platform) -> None:
        with redis_of(platform) as connection:
            state(connection, STOPPED_S)

    return fault


def stop(*words: str) -> Fault:
    """SIGSTOP of the processes with these words, and SIGCONT."""

    def stop_for_a_while(platform: Platform) -> None:
        victims = find(platform, *words)
        if not victims:
            raise NothingThere(f"no process with {words} to stop")
        for victim in victims:
            victim.suspend()
        time.sleep(STOPPED_S)
        for victim in victims:
            with suppress(psutil.NoSuchProcess):  # the supervisor was faster
                victim.resume()

    return stop_for_a_while


KILLS: Mapping[str, Fault] = {
    "trainer killed": kill("trainer_service.main"),
    "job killed": kill_ray_job,
    "vLLM killed": kill_vllm,
    "Redis killed": kill("valkey"),
    "Redis emptied": flush_redis,
}
FOR_A_WHILE: Mapping[str, Fault] = {
    "Redis full": to_redis(be_full),
    "Redis read-only": to_redis(be_a_replica),
    "Redis stopped": stop("valkey"),
    "trainer stopped": stop("trainer_service.main"),
    "rollout stopped": stop("rollout_service.main"),
    "sandbox stopped": stop("sandbox_service.main"),
}
ALL: Mapping[str, Fault] = {
    **KILLS,
    **FOR_A_WHILE,
    "rank killed": kill_a_rank,
    "Ray killed": kill("raylet"),
    "rollout killed": kill("rollout_service.main"),
    "sandbox killed": kill("sandbox_service.main"),
    "registry killed": kill("registry_service.main"),
    "job and Ray stopped": stop("trainer_service.job"),
}


def _line(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _kill(victims: Sequence[psutil.Process], what: str) -> None:
    if not victims:
        raise NothingThere(f"no {what} to kill")
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
