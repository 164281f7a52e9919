"""kill -9 of each part once during a run: the run ends SUCCEEDED, with the steps it was to have."""

import os
import signal
from collections.abc import Callable

import pytest

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.e2e.conftest import Platform
from tests.e2e.test_main_job import grpo

from .killing import find, flush_redis, kill, kill_redis, kill_vllm, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1800)]

STEPS = 6


def kill_trainer_worker(platform: Platform) -> None:
    kill(platform, "trainer_service.main")


def kill_ray_job(platform: Platform) -> None:
    """The job alone: Ray's own processes are modules below `trainer_service.job`, too."""
    victims = [one for one in find(platform, "trainer_service.job") if "trainer_service.job" in one.cmdline()]
    assert victims, "no job to kill"
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)


@pytest.mark.parametrize("fault", [kill_trainer_worker, kill_ray_job, kill_vllm, kill_redis, flush_redis])
def test_a_run_survives(platform: Platform, client: Client, fault: Callable[[Platform], None]) -> None:
    spec = grpo(steps=STEPS)
    spec.checkpoint_every = 2
    spec.output_model = ""
    run = client.runs.create(spec)
    wait_until(lambda: client.runs.get(run.id).step >= 3, 400)
    fault(platform)
    wait_until(lambda: has_ended(client, run.id), 900)
    run = client.runs.get(run.id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
    assert run.step == STEPS
    numbers = [step.number for step in client.runs.steps(run.id) if "reward_mean" in step.metrics]
    assert sorted(set(numbers)) == list(range(1, STEPS + 1))


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
