"""What guards say of a step stands in the run; what stops it leaves its best checkpoint."""

from typing import Any

from ratchet_kit.errors import Failure
from ratchet_kit.usage import Usage
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, State, Step
from trainer_service.domain.spec.thresholds import Thresholds


async def running(trainer: Any, spec: Any) -> Run:
    run: Run = await trainer.create("r1", spec)
    now = trainer.clock.now()
    started: Run = await trainer.store.change(run.id, lambda run: run.start(now).begin(1, now))
    return started


async def report(trainer: Any, run: Run, number: int, **metrics: float) -> bool:
    """Whether the job is to stop."""
    step = Step(number, metrics, "sha256:p", trainer.clock.now(), 1)
    return bool((await trainer.reports.step(run.id, step)).cancelled)


async def test_a_stopped_run_says_what_it_was_and_keeps_its_best(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=10))
    best = Checkpoint(1, "/exports/step-1", "sha256:p", trainer.clock.now(), 0.412)
    assert [await report(trainer, run, 1, kl=0.0)] == [False]
    await trainer.reports.checkpoint(run.id, 1, best)
    assert [await report(trainer, run, number, kl=2.0) for number in (2, 3, 4)] == [False, False, True]
    stopped = await trainer.runs.get(run.id)
    message = (
        "stopped at step 4: the policy moves too far: KL was 2.00 nats a token in the last 3 steps, more than 1; take a"
        " smaller learning_rate, or a kl_coefficient; the best checkpoint, of step 1, which scored 0.412, stays"
    )
    assert (stopped.state, stopped.failure, stopped.best_checkpoint) == (
        State.FAILED,
        Failure("ABORTED", message),
        best,
    )
    assert [(notice.guard, notice.step) for notice in stopped.notices] == [("kl", 4)]
    assert trainer.events.published[-1] == (run.id, State.FAILED)
    await trainer.driver.drive(run.id)  # its job is cleared away, and what it could resume from stays
    assert (trainer.policies.released, trainer.folders.tidied, trainer.registry.registered) == ([(run.id, 1)], [], {})


async def test_at_the_last_step_there_is_nothing_left_to_stop(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=3))
    assert [await report(trainer, run, number, kl=2.0) for number in (1, 2, 3, 3)] == [False] * 4
    trained = await trainer.runs.get(run.id)
    assert (trained.state, [notice.guard for notice in trained.notices]) == (State.RUNNING, ["kl"])


async def test_a_notice_is_kept_with_its_step_and_guard_and_only_once(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=20))
    for number in (1, 2, 3, 3, 4):
        assert not await report(trainer, run, number, entropy=0.001)
    noticed = await trainer.runs.get(run.id)
    assert [(notice.step, notice.guard) for notice in noticed.notices] == [(3, "entropy")]
    assert noticed.state is State.RUNNING


async def test_the_base_is_remembered_over_a_long_run(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=200))
    await report(trainer, run, 1, base_score=0.41)
    for number in range(2, 121):
        assert not await report(trainer, run, number, kl=0.0)
    assert await report(trainer, run, 121, validation_score=0.0, validation_problems=100.0)
    failure = (await trainer.runs.get(run.id)).failure
    assert failure is not None
    assert "where the base scored 0.410" in failure.message
    assert failure.message.endswith("it has no checkpoint yet")


async def test_a_run_can_do_without_guards(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=10, thresholds=Thresholds(kl_limit=0)))
    assert [await report(trainer, run, number, kl=9.0) for number in range(1, 6)] == [False] * 5


async def test_each_report_of_a_job_brings_its_usage(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(steps=1))
    now = trainer.clock.now()
    seen = []
    await trainer.reports.heartbeat(run.id, 1, usage=Usage(completion_tokens=1))
    seen.append((await trainer.runs.get(run.id)).usage)
    await trainer.reports.step(run.id, Step(1, {}, "sha256:p", now, 1), Usage(completion_tokens=2))
    seen.append((await trainer.runs.get(run.id)).usage)
    await trainer.reports.heartbeat(run.id, 1)  # of a job that an older version has started
    await trainer.reports.finished(run.id, 1, None, Usage(completion_tokens=3))
    seen.append((await trainer.runs.get(run.id)).usage)
    assert [one.completion_tokens for one in seen] == [1, 2, 3]
