"""kill -9 of each part once during a run, then all that refuses or stops for a while during another: the run ends
SUCCEEDED, with the steps it was to have."""

import pytest

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.e2e.conftest import Platform
from tests.e2e.test_main_job import grpo

from .faults import FOR_A_WHILE, KILLS, Fault
from .killing import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1800)]

STEPS = 6


@pytest.mark.parametrize("fault", KILLS.values(), ids=KILLS)
def test_a_run_survives(platform: Platform, client: Client, fault: Fault) -> None:
    run = start(client, STEPS)
    wait_until(lambda: client.runs.get(run.id).step >= 3, 400)
    fault(platform)
    check_end(client, run.id, STEPS)


def test_a_run_survives_what_refuses_and_stops_for_a_while(platform: Platform, client: Client) -> None:
    steps = len(FOR_A_WHILE) + 2
    run = start(client, steps)
    for number, fault in enumerate(FOR_A_WHILE.values(), 1):
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
