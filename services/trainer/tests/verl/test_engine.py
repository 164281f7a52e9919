"""One sentence for each way a run fails, and none for a process that was killed."""

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

from ray.exceptions import ActorDiedError, RayTaskError, WorkerCrashedError

from ratchet_kit.errors import DataLoss, Failure
from trainer_service.job.verl.engine import failure_of, is_lost_process

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
    assert is_lost_process(ActorDiedError())
    assert is_lost_process(WorkerCrashedError())


def test_an_actor_that_could_not_start_is_one():
    assert not is_lost_process(ActorDiedError(RayTaskError("__init__", "trace", ValueError("bad config"))))
    assert not is_lost_process(in_a_rank(ValueError("bad batch")))
