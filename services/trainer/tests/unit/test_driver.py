"""The driver over memory: a test plays the job, by its reports and its death."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import Failure, InvalidArgument
from ratchet_kit.names import Location, VersionRef
from trainer_service.domain.ports import VersionState
from trainer_service.domain.run import Checkpoint, Phase, Run, State, Step

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
