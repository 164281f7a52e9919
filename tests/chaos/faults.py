"""What can happen to a platform while a run trains. A fault fails where it finds nothing to happen to."""

from collections.abc import Callable, Mapping
from functools import partial

import psutil
import redis

from tests.e2e.conftest import Platform

from .killing import each, find, flush_redis, kill, kill_redis, kill_vllm, redis_of, stop
from .refusing import be_a_replica, be_full

STOPPED_S = 15.0

Fault = Callable[[Platform], None]


def kill_ray_job(platform: Platform) -> None:
    """The job alone: Ray's own processes are modules below `trainer_service.verl`, too."""
    victims = [one for one in find(platform, "trainer_service.verl") if "trainer_service.verl" in one.cmdline()]
    assert victims, "no job to kill"
    each(victims, psutil.Process.kill)


def kill_words(*words: str) -> Fault:
    def fault(platform: Platform) -> None:
        kill(platform, *words)

    return fault


def to_redis(state: Callable[["redis.Redis", float], None]) -> Fault:
    def fault(platform: Platform) -> None:
        with redis_of(platform) as connection:
            state(connection, STOPPED_S)

    return fault


stopped = partial(stop, STOPPED_S)

KILLS: Mapping[str, Fault] = {
    "trainer killed": kill_words("trainer_service.main"),
    "job killed": kill_ray_job,
    "vLLM killed": kill_vllm,
    "Redis killed": kill_redis,
    "Redis emptied": flush_redis,
}
FOR_A_WHILE: Mapping[str, Fault] = {
    "Redis full": to_redis(be_full),
    "Redis read-only": to_redis(be_a_replica),
    "Redis stopped": stopped("valkey"),
    "trainer stopped": stopped("trainer_service.main"),
    "rollout stopped": stopped("rollout_service.main"),
    "sandbox stopped": stopped("sandbox_service.main"),
}
ALL: Mapping[str, Fault] = {
    **KILLS,
    **FOR_A_WHILE,
    "rank killed": kill_words("ray::", "WorkerDict"),
    "Ray killed": kill_words("raylet"),
    "rollout killed": kill_words("rollout_service.main"),
    "sandbox killed": kill_words("sandbox_service.main"),
    "registry killed": kill_words("registry_service.main"),
    "job and Ray stopped": stopped("trainer_service.verl"),
}
