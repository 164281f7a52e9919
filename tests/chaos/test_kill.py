"""kill -9 of each part once during a run, then all that refuses or stops for a while during another: the run ends
SUCCEEDED, with the steps it was to have."""

import os
import signal
from collections.abc import Callable

import pytest
import redis

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.e2e.conftest import Platform
from tests.e2e.test_main_job import grpo

from .killing import find, flush_redis, kill, kill_redis, kill_vllm, redis_of, stop, wait_until
from .refusing import be_a_replica, be_full

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1800)]

STEPS = 6
STOPPED_S = 15.0


def kill_trainer_worker(platform: Platform) -> None:
    kill(platform, "trainer_service.main")


def kill_ray_job(platform: Platform) -> None:
    """The job alone: Ray's own processes are modules below `trainer_service.job`, too."""
    victims = [one for one in find(platform, "trainer_service.job") if "trainer_service.job" in one.cmdline()]
    assert victims, "no job to kill"
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)


def to_redis(state: Callable[[redis.Redis, float], None]) -> Callable[[Platform], None]:
    def fault(platform: Platform) -> None:
        with redis_of(platform) as connection:
            state(connection, STOPPED_S)

    return fault


FOR_A_WHILE = (
    to_redis(be_full),
    to_redis(be_a_replica),
    stop(STOPPED_S, "valkey"),
    stop(STOPPED_S, "trainer_service.main"),
    stop(STOPPED_S, "rollout_service.main"),
    stop(STOPPED_S, "sandbox_service.main"),
)


@pytest.mark.parametrize("fault", [kill_trainer_worker, kill_ray_job, kill_vllm, kill_redis, flush_redis])
def test_a_run_survives(platform: Platform, client: Client, fault: Callable[[Platform], None]) -> None:
    run = start(client, STEPS)
    wait_until(lambda: client.runs.get(run.id).step >= 3, 400)
    fault(platform)
    check_end(client, run.id, STEPS)


def test_a_run_survives_what_refuses_and_stops_for_a_while(platform: Platform, client: Client) -> None:
    steps = len(FOR_A_WHILE) + 2
    run = start(client, steps)
    for number, fault in enumerate(FOR_A_WHILE, 1):
        wait_until(lambda number=number: step_of(client, run.id) >= number, 400)  # type: ignore[misc]
        fault(platform)
    check_end(client, run.id, steps)


def start(client: Client, steps: int) -> trainer_pb2.Run:
    spec = grpo(steps=steps)
    spec.checkpoint_every = 2
    spec.output_model = ""
    return client.runs.create(spec)


def check_end(client: Client, run_id: str, steps: int) -> None:
    wait_until(lambda: has_ended(client, run_id), 900)
    run = client.runs.get(run_id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
    assert run.step == steps
    numbers = [step.number for step in client.runs.steps(run.id) if "reward_mean" in step.metrics]
    assert sorted(set(numbers)) == list(range(1, steps + 1))


def step_of(client: Client, run_id: str) -> int:
    try:
        return client.runs.get(run_id).step
    except (ApiError, Unreachable):
        return 0


def has_ended(client: Client, run_id: str) -> bool:
    try:
        state = client.runs.get(run_id).state
    except (ApiError, Unreachable):
        return False
    return state in (
        trainer_pb2.Run.STATE_SUCCEEDED,
        trainer_pb2.Run.STATE_FAILED,
        trainer_pb2.Run.STATE_CANCELLED,
    )
