"""The driver over memory: a test plays the job, by its reports and its death."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import (
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    PermissionDenied,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.names import Location
from ratchet_rewards import Component, Reward
from trainer_service.domain.inputs.found import FoundModel
from trainer_service.domain.run.run import Run, State
from trainer_service.domain.spec.hyperparameters import Hyperparameters

from ..driving import do_steps, driving, submitted, train

LOST = Failure("FAILED_PRECONDITION", "more than 5 % of the samples were lost")


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
    (notice,) = done.notices
    assert (notice.step, notice.message) == (
        1,
        "attempt 1 was lost, and is followed by another: it was killed by SIGKILL",
    )


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


async def test_what_is_left_of_a_run_that_is_over_holds_up_no_other(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise Unavailable("the registry is away")

    with monkeypatch.context() as patch:
        patch.setattr(trainer.folders, "tidy", away)
        async with driving(trainer, run.id) as driver:
            await submitted(trainer, run, 1)
            await train(trainer, run)
            with pytest.raises(Unavailable, match="what it leaves waits: the registry is away"):
                await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED
    assert trainer.policies.released == [(run.id, 1)]
    await trainer.driver.drive(run.id)
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
        await asyncio.sleep(0.02)
        assert (await trainer.runs.get(run.id)).waits_for == "the cluster is down"
        trainer.jobs.down = False
        await submitted(trainer, run, 1)
    assert (await trainer.runs.get(run.id)).attempt == 1


async def test_cancel_stops_the_job(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.runs.cancel(run.id)
        await asyncio.wait_for(driver, 5)
    assert trainer.jobs.stopped == [(run.id, 1)]
    assert trainer.policies.released == [(run.id, 1)]


async def pause() -> None:
    """For some looks of the driver."""
    await asyncio.sleep(0.02)


async def test_a_job_that_sends_no_heartbeat_is_started_again(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        for _ in range(3):  # a step may take as long as it likes
            await trainer.reports.heartbeat(run.id, 1)
            await pause()
            trainer.clock.advance(timedelta(minutes=9))
        await pause()
        assert trainer.jobs.submitted == [(run.id, 1)]
        trainer.clock.advance(timedelta(minutes=2))
        await submitted(trainer, run, 2)
        with pytest.raises(FailedPrecondition, match="attempt 1 is stale"):
            await trainer.reports.heartbeat(run.id, 1)
    assert (set(trainer.jobs.stopped), set(trainer.policies.released)) == ({(run.id, 1)}, {(run.id, 1)})


async def test_a_job_that_waits_for_room_on_the_cluster_is_left_alone(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        trainer.jobs.wait(run.id, 1)
        trainer.clock.advance(timedelta(days=1))
        await pause()
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_heartbeats_that_the_service_could_not_hear_are_not_missed(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Run:
        raise Unavailable("the database is away")

    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        await pause()
        with monkeypatch.context() as patch:
            patch.setattr(trainer.store, "get", away)
            await pause()
            trainer.clock.advance(timedelta(hours=1))
            await pause()
        await pause()
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_a_job_of_another_service_is_left_alone_while_it_lives(trainer: Any, run: Run) -> None:
    """Its lease passed on: this service's Ray does not know the job that the other's runs."""
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
    trainer.jobs.forget()
    trainer.jobs.place = "another"
    async with driving(trainer, run.id) as driver:
        await pause()
        trainer.clock.advance(timedelta(minutes=9))  # it may be starting
        for _ in range(3):
            await trainer.reports.heartbeat(run.id, 1)
            await pause()
            trainer.clock.advance(timedelta(seconds=50))
        await pause()
        assert trainer.jobs.submitted == [(run.id, 1)]
        trainer.clock.advance(timedelta(seconds=61))
        await submitted(trainer, run, 2)
        assert (await trainer.runs.get(run.id)).place == "another"
        await trainer.reports.started(run.id, 2)
        await do_steps(trainer, run, 2, 1, 2, 3)
        await trainer.reports.finished(run.id, 2, None)
        trainer.jobs.end(run.id, 2)
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED


async def test_the_job_of_another_service_may_end_the_run(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
    trainer.jobs.forget()
    trainer.jobs.place = "another"
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED
    assert trainer.jobs.submitted == [(run.id, 1)]


async def test_a_failed_run_is_resumed_under_the_next_attempt(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1)
        await trainer.reports.finished(run.id, 1, LOST)
        trainer.jobs.end(run.id, 1)
        await asyncio.wait_for(driver, 5)
    await trainer.runs.resume(run.id)
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 2)
        await trainer.reports.started(run.id, 2)
        await do_steps(trainer, run, 2, 2, 3)
        await trainer.reports.finished(run.id, 2, None)
        trainer.jobs.end(run.id, 2)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.step, done.attempt, done.resumes) == (State.SUCCEEDED, 3, 2, 1)


async def test_a_cancelled_run_can_be_resumed_before_its_job_is_gone(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
        await trainer.runs.cancel(run.id)
        await trainer.runs.resume(run.id)
        await submitted(trainer, run, 2)
        assert (await trainer.runs.get(run.id)).state is State.STARTING
    assert (run.id, 1) in trainer.jobs.stopped


async def test_a_base_that_is_gone_fails_the_run(trainer: Any, run: Run) -> None:
    trainer.folders.models.clear()
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert "a model that it needs is gone" in (await trainer.runs.get(run.id)).failure.message


@pytest.mark.parametrize("kind", [InvalidArgument, DataLoss, PermissionDenied])
async def test_a_base_that_can_never_be_fetched_fails_the_run_at_once(trainer: Any, run: Run, kind: Any) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise kind("its config.json is no JSON")

    trainer.folders.fetch = refuse
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).failure == Failure.of(kind("its config.json is no JSON"))


async def test_a_job_is_given_the_reward_model(trainer: Any, make_spec: Any) -> None:
    judge = FoundModel(Location("/models/judge"), "/models/judge", 7_000_000, max_tokens=512, outputs=1)
    trainer.folders.models["/models/judge"] = judge
    reward = Reward(components=(Component("preference", model=Location("/models/judge")),))
    run = await trainer.create("r2", make_spec(reward=reward))
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
    assert [model.path for model in trainer.jobs.reward_models] == [Path("/models/judge")]


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

    async def fetch_later(*what: Any, **how: Any) -> Any:
        if faults:
            raise faults.pop()
        return await fetch(*what, **how)

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
