"""What a job that ran out of memory looks like, and what only resembles it."""

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

import torch
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError, WorkerCrashedError

from trainer_service.verl.out_of_memory import ran_out

pytestmark = pytest.mark.verl


def allocation() -> RuntimeError:
    try:
        torch.empty(1 << 50)
    except RuntimeError as error:
        return error
    raise AssertionError("a petabyte was there")


def test_torch_rays_killer_and_the_kernel_are_known() -> None:
    of_rank = RayTaskError("update_actor", "trace", torch.OutOfMemoryError("CUDA out of memory"))
    for error in (allocation(), torch.OutOfMemoryError("x"), OutOfMemoryError("x"), MemoryError(), of_rank):
        assert ran_out(error, kernel_killed=False)
    assert ran_out(WorkerCrashedError(), kernel_killed=True)
    assert ran_out(ActorDiedError(), kernel_killed=True)


def test_a_process_that_was_killed_otherwise_is_not_out_of_memory() -> None:
    assert not ran_out(ActorDiedError(), kernel_killed=False)
    assert not ran_out(WorkerCrashedError(), kernel_killed=False)
    assert not ran_out(ValueError("x"), kernel_killed=True)
    assert not ran_out(RayTaskError("update_actor", "trace", RuntimeError("shapes differ")), kernel_killed=True)
