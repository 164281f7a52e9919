"""The driver over memory: a test plays the job, by its reports and its death."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    RatchetError,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.names import Location, VersionRef
from trainer_service.domain.ports import VersionState
from trainer_service.domain.run import Checkpoint, Phase, Run, State, Step
from trainer_service.domain.spec import Hyperparameters

LOST = Failure("FAILED_PRECONDITION", "more than 5 % of the samples were lost")


@asynccontextmanager
async def driving(trainer: Any, id: str) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(trainer.driver.drive(id))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


async def submitted(trainer: Any, run: Run, attempt: int) -> None:
    await until(lambda: (run.id, attempt) in trainer.jobs.submitted)


async def do_steps(trainer: Any, run: Run, attempt: int, *numbers: int) -> None:
    now = trainer.clock.now()
    for number in numbers:
        await trainer.reports.step(run.id, Step(number, {}, f"sha256:{number}", now, attempt))
        checkpoint = Checkpoint(number, f"/exports/{number}", f"sha256:{number}", now, 0.9 if number == 2 else 0.1)
        await trainer.reports.checkpoint(run.id, attempt, checkpoint)


async def train(trainer: Any, run: Run) -> None:
    """Plays the job of attempt 1 from its start to its end."""
    await submitted(trainer, run, 1)
    await trainer.reports.started(run.id, 1)
    await do_steps(trainer, run, 1, 1, 2, 3)
    await trainer.reports.finished(run.id, 1, None)
    trainer.jobs.end(run.id, 1)


@pytest.fixture
async def run(trainer: Any, make_spec: Any) -> Run:
    created: Run = await trainer.create("r1", make_spec(steps=3, output_model="coder"))
    return created


async def test_the_best_checkpoint_becomes_a_version_with_its_lineage(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.version, done.best_checkpoint.step) == (State.SUCCEEDED, VersionRef("coder", 1), 2)
    model, source, lineage = trainer.registry.registered[run.id]
    assert (model, source) == ("coder", "/exports/2")
    assert (lineage.base, lineage.run_id, lineage.data_digest, lineage.step) == (
        Location("/models/starter"),
        run.id,
        "sha256:t",
        2,
    )
    assert lineage.config_digest.startswith("sha256:")
    assert len(lineage.training_fingerprints) == 1000
    assert trainer.policies.released == [run.id]
    assert [state for _, state in trainer.events.published] == [
        State.QUEUED,
        State.STARTING,
        State.RUNNING,
        State.RUNNING,
        State.SUCCEEDED,
    ]


@pytest.mark.parametrize("now", [{}, {"composed/train": "sha256:another"}], ids=["gone", "changed"])
async def test_what_was_learned_is_not_known_once_the_problems_are_gone(
    trainer: Any, run: Run, now: dict[str, str]
) -> None:
    trainer.ports.problems.digests = now
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert trainer.registry.registered[run.id][2].training_fingerprints == ()


async def test_a_job_that_dies_is_started_again_and_goes_on(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1)
        trainer.jobs.end(run.id, 1, "it was killed by SIGKILL")
        await submitted(trainer, run, 2)
        assert (await trainer.runs.get(run.id)).state is State.STARTING
        await trainer.reports.started(run.id, 2)
        await do_steps(trainer, run, 2, 2, 3)
        await trainer.reports.finished(run.id, 2, None)
        trainer.jobs.end(run.id, 2)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.attempt, done.step) == (State.SUCCEEDED, 2, 3)


async def test_a_job_that_ran_out_of_memory_is_tried_once_with_half_as_much_at_a_time(
    trainer: Any, make_spec: Any
) -> None:
    run = await trainer.create("r2", make_spec(hyperparameters=Hyperparameters(micro_batch_tokens=2048)))
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        trainer.jobs.end(run.id, 1, "it ended with exit code 77", out_of_memory=True)
        await submitted(trainer, run, 2)
        again = await trainer.runs.get(run.id)
        assert (again.passes.tokens, again.passes.recomputed) == (1024, True)
        assert [notice.message for notice in again.notices] == [
            "attempt 1 ran out of memory with passes of 2048 tokens: the next makes passes of 1024, and activations a"
            " second time"
        ]
        trainer.jobs.end(run.id, 2, "it ended with exit code 77", out_of_memory=True)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert done.failure == Failure(
        "RESOURCE_EXHAUSTED",
        "training ran out of memory at step 0, also with passes of 1024 tokens and activations made a second time: take"
        " shorter sequences, a smaller base, or give it more memory",
    )


async def test_a_job_that_always_dies_fails_the_run_with_its_reason(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        for attempt in (1, 2, 3):
            await submitted(trainer, run, attempt)
            trainer.jobs.end(run.id, attempt, "it ended with exit code 3")
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert done.state is State.FAILED
    assert done.failure.message == "the job died 3 times, the last at step 0: it ended with exit code 3"


async def test_what_only_a_resumed_run_needs_goes_once_the_run_has_succeeded(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        assert trainer.folders.tidied == []
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert trainer.folders.tidied == [run.id]


async def test_what_a_cancelled_run_has_stays(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.runs.cancel(run.id)
        await asyncio.wait_for(driver, 5)
    assert trainer.folders.tidied == []


async def test_an_error_that_the_job_reports_is_not_tried_again(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await trainer.reports.finished(run.id, 1, LOST)
        trainer.jobs.end(run.id, 1)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.failure) == (State.FAILED, LOST)
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_another_driver_finds_the_job_of_one_that_died(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
    async with driving(trainer, run.id) as driver:
        await do_steps(trainer, run, 1, 1, 2, 3)
        await trainer.reports.finished(run.id, 1, None)
        trainer.jobs.end(run.id, 1)
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).attempt == 1
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_two_drivers_of_one_run_make_one_job_an_attempt(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as first, driving(trainer, run.id) as second:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        trainer.jobs.end(run.id, 1)
        await submitted(trainer, run, 2)
        await trainer.reports.started(run.id, 2)
        await do_steps(trainer, run, 2, 1, 2, 3)
        await trainer.reports.finished(run.id, 2, None)
        trainer.jobs.end(run.id, 2)
        await asyncio.wait_for(asyncio.gather(first, second), 5)
    assert trainer.jobs.submitted == [(run.id, 1), (run.id, 2)]
    assert list(trainer.registry.registered) == [run.id]


async def test_a_cluster_that_dies_takes_its_jobs_with_it(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        trainer.jobs.forget()
        await submitted(trainer, run, 2)


async def test_an_unreachable_cluster_costs_no_attempt(trainer: Any, run: Run) -> None:
    trainer.jobs.down = True
    async with driving(trainer, run.id):
        await until(lambda: trainer.events.published[-1] == (run.id, State.STARTING))
        await asyncio.sleep(0.02)
        trainer.jobs.down = False
        await submitted(trainer, run, 1)
    assert (await trainer.runs.get(run.id)).attempt == 1


async def test_an_unreachable_registry_is_waited_for(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1, 2, 3)
        trainer.registry.down = True
        await trainer.reports.finished(run.id, 1, None)
        await asyncio.sleep(0.02)
        assert (await trainer.runs.get(run.id)).state is State.RUNNING
        trainer.registry.down = False
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 1)


async def test_a_registry_that_refuses_fails_the_run(trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise InvalidArgument("the folder holds no model")

    monkeypatch.setattr(trainer.registry, "register", refuse)
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1, 2, 3)
        await trainer.reports.finished(run.id, 1, None)
        await asyncio.wait_for(driver, 5)
    failure = (await trainer.runs.get(run.id)).failure
    assert failure.message == "the registry refused the best checkpoint: the folder holds no model"


async def test_a_version_is_waited_for_until_it_is_ready(trainer: Any, run: Run) -> None:
    trainer.registry.state = VersionState.PENDING
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await until(lambda: trainer.registry.registered)
        await asyncio.sleep(0.02)
        going_on = await trainer.runs.get(run.id)
        assert (going_on.state, going_on.phase) == (State.RUNNING, Phase.REGISTERING)
        driver.cancel()  # the service is started again
    trainer.registry.state = VersionState.READY
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 1)
    assert list(trainer.registry.registered) == [run.id]


async def test_a_version_that_the_registry_cannot_make_fails_the_run(trainer: Any, run: Run) -> None:
    trainer.registry.state = VersionState.FAILED
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    failed = await trainer.runs.get(run.id)
    assert failed.failure == Failure("INVALID_ARGUMENT", "the registry could not make coder@1: no weights")
    assert failed.version is None


async def test_cancel_stops_the_job(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.runs.cancel(run.id)
        await asyncio.wait_for(driver, 5)
    assert trainer.jobs.stopped == [(run.id, 1)]
    assert trainer.policies.released == [run.id]


async def test_a_job_that_says_nothing_for_long_is_started_again(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        trainer.clock.advance(timedelta(hours=2))
        await submitted(trainer, run, 2)
    assert trainer.jobs.stopped == [(run.id, 1)]


async def test_a_base_that_is_gone_fails_the_run(trainer: Any, run: Run) -> None:
    trainer.folders.models.clear()
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert "the base is gone" in (await trainer.runs.get(run.id)).failure.message


@pytest.mark.parametrize(
    "fault",
    [Internal("a bug of the registry"), Unauthenticated("another token"), ResourceExhausted("full"), KeyError("?")],
)
async def test_a_run_that_has_trained_waits_for_the_registry_whatever_it_answers(
    trainer: Any, run: Run, fault: Exception
) -> None:
    trainer.registry.fault = fault
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.sleep(0.02)
        trainer.clock.advance(timedelta(seconds=31))
        with pytest.raises(Unavailable):  # others have their turn
            await asyncio.wait_for(driver, 5)
    with pytest.raises(Unavailable):
        await trainer.driver.give_up(run.id, Internal("its worker says so"))
    assert (await trainer.runs.get(run.id)).state is State.RUNNING
    trainer.registry.fault = None
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED


async def test_a_version_that_the_platform_could_not_make_is_made_again(trainer: Any, run: Run) -> None:
    full = Failure("RESOURCE_EXHAUSTED", "the artifact store is full")
    trainer.registry.failures = {run.id: full, f"{run.id}-2": full}
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await until(lambda: run.id in trainer.registry.registered)
        await asyncio.sleep(0.02)
        assert list(trainer.registry.registered) == [run.id]
        trainer.clock.advance(timedelta(seconds=61))
        await until(lambda: f"{run.id}-2" in trainer.registry.registered)
        await asyncio.sleep(0.02)
        assert not driver.done() or isinstance(driver.exception(), Unavailable)
    trainer.clock.advance(timedelta(seconds=121))
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.version) == (State.SUCCEEDED, VersionRef("coder", 3))


async def test_a_service_that_was_updated_meanwhile_registers_under_its_own_lineage(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = trainer.registry.register

    async def refuse_the_first(request_id: str, *spec: Any) -> Any:
        if request_id == run.id:
            raise AlreadyExists("the request was for another version")
        return await register(request_id, *spec)

    monkeypatch.setattr(trainer.registry, "register", refuse_the_first)
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert list(trainer.registry.registered) == [f"{run.id}-2"]


async def test_a_job_cannot_fail_a_run_that_has_trained(trainer: Any, run: Run) -> None:
    """The report of its end was stored, and its answer was lost: the job takes that for a failure."""
    trainer.registry.down = True
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        with pytest.raises(FailedPrecondition, match="has done all its steps"):
            await trainer.reports.finished(run.id, 1, LOST)
        trainer.registry.down = False
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED


async def test_only_attempts_that_come_no_further_count(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        for attempt, steps in enumerate([(), (1,), (), (), (1, 2), (), ()], 1):
            await submitted(trainer, run, attempt)
            await trainer.reports.started(run.id, attempt)
            await do_steps(trainer, run, attempt, *steps)
            trainer.jobs.end(run.id, attempt, "it was killed by SIGKILL")
        await submitted(trainer, run, 8)
        await trainer.reports.started(run.id, 8)
        await do_steps(trainer, run, 8, 1, 2)  # no step that none had done
        trainer.jobs.end(run.id, 8, "it was killed by SIGKILL")
        await asyncio.wait_for(driver, 5)
    failed = await trainer.runs.get(run.id)
    assert failed.failure.message == "the job died 3 times, the last at step 2: it was killed by SIGKILL"


@pytest.mark.parametrize("fault", [ResourceExhausted("no space is left"), Internal("?"), DeadlineExceeded("late")])
async def test_a_job_that_cannot_be_submitted_now_costs_nothing(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch, fault: RatchetError
) -> None:
    fetch, faults = trainer.folders.fetch, [fault, fault]

    async def fetch_later(*what: Any) -> Any:
        if faults:
            raise faults.pop()
        return await fetch(*what)

    monkeypatch.setattr(trainer.folders, "fetch", fetch_later)
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)


async def test_what_nobody_foresaw_is_survived_for_a_while(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stumble(*_: Any) -> None:
        raise ValueError("Ray answers in another form")

    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        with monkeypatch.context() as patch:
            patch.setattr(trainer.jobs, "status", stumble)
            await asyncio.sleep(0.02)
        await trainer.reports.started(run.id, 1)
        assert not driver.done()
        monkeypatch.setattr(trainer.jobs, "status", stumble)
        await asyncio.sleep(0.02)
        trainer.clock.advance(timedelta(minutes=11))
        with pytest.raises(ValueError, match="another form"):
            await asyncio.wait_for(driver, 5)
