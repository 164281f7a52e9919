"""One sentence for each way a run fails, and none for a process that was killed."""

import errno

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError, WorkerCrashedError
from safetensors import SafetensorError

from ratchet_kit.errors import (
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from trainer_service.verl.engine import failure_of, is_final

pytestmark = pytest.mark.verl


def message_of(error: Exception) -> str:
    return failure_of(error).message


def in_a_rank(error: Exception) -> RayTaskError:
    return RayTaskError("train_batch", "a trace of forty lines", error).as_instanceof_cause()


def test_an_error_of_ours_speaks_for_itself():
    failure = failure_of(DataLoss("the engine has other weights"))
    assert failure == Failure("DATA_LOSS", "the engine has other weights")


def test_an_error_of_a_rank_is_unwrapped():
    assert message_of(in_a_rank(DataLoss("the engine has other weights"))) == "the engine has other weights"
    assert message_of(in_a_rank(AssertionError("7 does not divide 32"))) == "AssertionError: 7 does not divide 32"


def test_what_a_library_wrapped_is_unwrapped():
    outer = RuntimeError("Error in call to target 'Model':\nfull_key: model")
    outer.__cause__ = FileNotFoundError("no config.json")
    assert message_of(outer) == "FileNotFoundError: no config.json"


def test_a_killed_process_is_no_failure_of_the_run():
    assert not is_final(ActorDiedError())
    assert not is_final(WorkerCrashedError())


def test_an_actor_that_could_not_start_is_one():
    assert is_final(ActorDiedError(RayTaskError("__init__", "trace", ValueError("bad config"))))
    assert is_final(in_a_rank(ValueError("bad batch")))


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("rollout-service is away"),
        ResourceExhausted("another job has held the TransferQueue"),
        DeadlineExceeded("the completions took too long"),
        Internal("a bug of another service"),
        NotFound("the policy is gone"),
        FailedPrecondition("the policy has other weights"),
        OSError(errno.ENOSPC, "No space left on device"),
        MemoryError(),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        GetTimeoutError("Get timed out"),
    ],
)
def test_what_may_be_over_by_the_next_attempt_is_not_final(error):
    assert not is_final(error)
    assert not is_final(in_a_rank(error))


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("no such field"),
        DataLoss("other weights"),
        AssertionError("7 of 32"),
        SafetensorError("header too small"),
    ],
)
def test_what_each_attempt_would_meet_is_final(error):
    assert is_final(error)
    assert is_final(in_a_rank(error))


def test_a_bug_that_shows_after_a_step_may_be_of_the_moment():
    for error in (KeyError("a sample"), in_a_rank(ValueError("bad batch"))):
        assert is_final(error)
        assert not is_final(error, has_stepped=True)
    assert is_final(in_a_rank(DataLoss("other weights")), has_stepped=True)
