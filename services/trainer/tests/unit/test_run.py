from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Usage
from trainer_service.domain.run.checkpoint import Checkpoint, best
from trainer_service.domain.run.run import Phase, Run, RunId, State, Step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
CODER = VersionRef("coder", 1)
FAILURE = Failure("DATA_LOSS", "other weights")


@pytest.fixture
def queued(make_spec: Any) -> Run:
    return Run.create(RunId("run_1"), make_spec(steps=2), NOW)


def step(number: int, attempt: int = 1, faults: int = 0) -> Step:
    return Step(number, {}, "sha256:p", NOW, attempt, faults)


def checkpoint(number: int, score: float | None) -> Checkpoint:
    return Checkpoint(number, f"/exports/{number}", "sha256:p", NOW, score)


def test_a_run_goes_from_queued_to_succeeded(queued: Run) -> None:
    run = queued.start(NOW)
    assert (run.state, run.attempt, run.start_time) == (State.STARTING, 1, NOW)
    run = run.begin(1, NOW).progress(step(1), None, NOW).progress(step(2), None, LATER)
    assert (run.state, run.step, run.update_time) == (State.RUNNING, 2, LATER)
    run = run.trained(1, LATER).succeed(CODER, LATER)
    assert (run.state, run.version, run.end_time) == (State.SUCCEEDED, CODER, LATER)


def test_an_attempt_that_died_is_stale_once_the_next_began(queued: Run) -> None:
    run = queued.start(NOW).begin(1, NOW).again(1, NOW)
    assert (run.state, run.attempt) == (State.QUEUED, 1)
    with pytest.raises(FailedPrecondition, match="run_1 is QUEUED"):
        run.beat(1, NOW)
    run = run.start(NOW)
    assert (run.state, run.attempt) == (State.STARTING, 2)
    for report in (
        lambda: run.begin(1, NOW),
        lambda: run.progress(step(1, attempt=1), None, NOW),
        lambda: run.checkpointed(1, [], NOW),
        lambda: run.trained(1, NOW),
        lambda: run.broken(1, FAILURE, NOW),
        lambda: run.again(1, NOW),
        lambda: run.beat(1, NOW),
    ):
        with pytest.raises(FailedPrecondition, match="attempt 1 is stale"):
            report()


def test_what_is_over_stays_over(queued: Run) -> None:
    started = queued.start(NOW)
    for over in (queued.cancel(NOW), started.fail(FAILURE, NOW)):
        for change in (
            lambda over=over: over.start(NOW),
            lambda over=over: over.begin(over.attempt, NOW),
            lambda over=over: over.progress(step(1, over.attempt), None, NOW),
            lambda over=over: over.again(over.attempt, NOW),
            lambda over=over: over.beat(over.attempt, NOW),
            lambda over=over: over.fail(FAILURE, NOW),
            lambda over=over: over.succeed(None, NOW),
        ):
            with pytest.raises(FailedPrecondition):
                change()


def test_cancel_is_idempotent_and_refused_after_success(queued: Run) -> None:
    cancelled = queued.cancel(NOW)
    assert cancelled.cancel(LATER) == cancelled
    done = replace(queued.start(NOW).begin(1, NOW), step=2).trained(1, NOW).succeed(None, NOW)
    with pytest.raises(FailedPrecondition, match="SUCCEEDED: it cannot cancel"):
        done.cancel(NOW)


def test_a_job_that_ends_early_has_failed(queued: Run) -> None:
    run = queued.start(NOW).begin(1, NOW).progress(step(1), None, NOW).trained(1, NOW)
    assert (run.state, run.failure) == (State.FAILED, Failure("INTERNAL", "the job ended after 1 of 2 steps"))


def test_success_and_another_attempt_ask_what_the_job_has_done(queued: Run) -> None:
    running = queued.start(NOW).begin(1, NOW)
    with pytest.raises(FailedPrecondition, match="has steps to do"):
        running.succeed(None, NOW)
    trained = replace(running, step=2).trained(1, NOW)
    with pytest.raises(FailedPrecondition, match="has done all its steps"):
        trained.again(1, NOW)


def test_a_phase_is_of_a_run_that_goes_on(queued: Run) -> None:
    assert queued.phase is None
    run = queued.start(NOW)
    assert (run.phase, run.phase_time) == (Phase.SUBMITTING, NOW)
    run = run.enter(1, Phase.LOADING_MODEL, NOW).enter(1, Phase.LOADING_MODEL, LATER)
    assert (run.phase, run.phase_time, run.update_time) == (Phase.LOADING_MODEL, NOW, LATER)
    assert run.again(1, LATER).phase is None
    assert run.again(1, LATER).start(LATER).phase is Phase.SUBMITTING
    with pytest.raises(FailedPrecondition, match="attempt 2 is stale"):
        run.enter(2, Phase.UPDATING, NOW)
    trained = replace(run.begin(1, NOW), step=2).trained(1, LATER)
    assert (trained.phase, trained.succeed(CODER, LATER).phase) == (Phase.REGISTERING, None)
    assert trained.enter(1, Phase.SAVING, LATER) == trained, "a report that was long on its way"
    with pytest.raises(FailedPrecondition):
        queued.cancel(NOW).enter(0, Phase.UPDATING, NOW)


@pytest.mark.parametrize("end", [lambda run: run.cancel(NOW, "key_1"), lambda run: run.fail(FAILURE, NOW)])
def test_a_run_that_failed_or_was_cancelled_is_taken_up(queued: Run, end: Callable[[Run], Run]) -> None:
    over = end(queued.start(NOW).begin(1, NOW).progress(step(1), None, NOW).again(1, NOW).start(NOW))
    run = over.resume(LATER, "key_2")
    assert (run.state, run.failure, run.end_time, run.cancel_actor) == (State.QUEUED, None, None, "")
    assert (run.step, run.attempt, run.resumes, run.resume_actor) == (1, 2, 1, "key_2")
    with pytest.raises(FailedPrecondition, match="QUEUED: it cannot be broken"):
        run.broken(2, FAILURE, LATER)  # by the job that was there before
    run = run.start(LATER, "another place")
    assert (run.attempt, run.futile_attempts, run.place) == (3, 1, "another place")
    assert (run.start_time, run.resume(LATER)) == (NOW, run)


def test_a_run_that_succeeded_is_not_taken_up(queued: Run) -> None:
    done = replace(queued.start(NOW).begin(1, NOW), step=2).trained(1, NOW).succeed(None, NOW)
    with pytest.raises(FailedPrecondition, match="SUCCEEDED: it cannot be resumed"):
        done.resume(NOW)


def test_a_run_that_could_not_be_registered_trains_no_more_when_it_is_taken_up(queued: Run) -> None:
    trained = replace(queued.start(NOW).begin(1, NOW), step=2).trained(1, NOW).fail(FAILURE, NOW)
    run = trained.resume(LATER).start(LATER).begin(2, LATER).trained(2, LATER)
    assert (run.phase, run.trained_time) == (Phase.REGISTERING, LATER)


def test_a_heartbeat_is_no_change(queued: Run) -> None:
    run = queued.start(NOW)
    beaten = run.beat(1, LATER)
    assert (beaten, beaten.heartbeat_time, beaten.update_time) == (run, LATER, NOW)
    assert beaten.again(1, LATER).start(LATER).heartbeat_time is None


def test_what_its_job_waits_for_is_noticed_once(queued: Run) -> None:
    run = queued.start(NOW).begin(1, NOW)
    for _ in range(3):
        run = run.beat(1, LATER, "the disk is full")
    run = run.beat(1, LATER).beat(1, LATER, "the disk is full").beat(1, LATER, "the store is away")
    assert [notice.message for notice in run.notices] == [
        "attempt 1 waits, and tries again: the disk is full",
        "attempt 1 waits, and tries again: the store is away",
    ]


def test_a_run_under_way_cannot_be_deleted(queued: Run) -> None:
    for run in (queued, queued.start(NOW), queued.start(NOW).begin(1, NOW)):
        with pytest.raises(FailedPrecondition, match="cannot be deleted"):
            run.check_deletable()
    queued.cancel(NOW).check_deletable()
    queued.start(NOW).fail(FAILURE, NOW).check_deletable()


def test_faults_count_once_for_each_attempt_that_met_them(queued: Run) -> None:
    run = queued.start(NOW).begin(1, NOW).progress(step(1, faults=3), None, NOW)
    run = run.progress(step(1, faults=3), step(1, faults=3), NOW)  # the report was sent again
    assert run.platform_faults == 3
    run = run.again(1, NOW).start(NOW).begin(2, NOW).progress(step(1, attempt=2, faults=1), step(1, faults=3), NOW)
    assert run.platform_faults == 4


def test_the_best_checkpoint_is_by_validation_and_the_later_of_equals() -> None:
    validated = [checkpoint(1, 0.5), checkpoint(2, 0.7), checkpoint(3, 0.7), checkpoint(4, 0.1), checkpoint(5, None)]
    assert best(validated) == validated[2]
    assert best([checkpoint(1, -3.0), checkpoint(2, -4.0)]) == checkpoint(1, -3.0)
    assert best([checkpoint(1, None), checkpoint(2, None)]) == checkpoint(2, None)
    assert best([]) is None


def test_a_run_ends_where_its_tokens_are_spent_whatever_steps_are_left(make_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_spec(steps=9, max_tokens=150), NOW).start(NOW).begin(1, NOW)
    run = run.progress(Step(1, {"tokens_total": 100.0}, "sha256:p", NOW, 1), None, NOW)
    assert (run.tokens, run.has_all_steps) == (100, False)
    assert run.trained(1, NOW).state is State.FAILED
    again = run.again(1, NOW).start(NOW).begin(2, NOW)  # the same step once more, of the next attempt
    again = again.progress(Step(1, {"tokens_total": 100.0}, "sha256:p", NOW, 2), Step(1, {}, "sha256:p", NOW, 1), NOW)
    again = again.progress(Step(2, {"tokens_total": 200.0}, "sha256:p", NOW, 2), None, NOW)
    assert (again.tokens, again.has_all_steps) == (200, True)
    assert again.trained(2, NOW).succeed(None, NOW).state is State.SUCCEEDED


def test_a_run_has_used_what_all_its_attempts_have_the_last_report_of_each(make_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_spec(steps=9), NOW).start(NOW).begin(1, NOW)
    run = run.used(1, Usage(prompt_tokens=5)).used(1, Usage(prompt_tokens=7))
    run = run.again(1, NOW).start(NOW).again(2, NOW).start(NOW).begin(3, NOW)  # attempt 2 never said anything
    run = run.used(3, Usage(prompt_tokens=10))
    assert [one.prompt_tokens for one in run.usages] == [7, 0, 10]
    assert run.usage.prompt_tokens == 17
    with pytest.raises(FailedPrecondition, match="stale"):
        run.used(1, Usage(prompt_tokens=99))


def test_a_run_ends_where_its_budget_is_spent_whatever_steps_are_left(make_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_spec(steps=9, budget=1.5), NOW).start(NOW).begin(1, NOW)
    run = run.progress(step(1), None, NOW).used(1, Usage(cost=1.0, currency="EUR"))
    assert not run.has_all_steps
    assert run.trained(1, NOW).state is State.FAILED
    run = run.again(1, NOW).start(NOW).begin(2, NOW).used(2, Usage(cost=0.5, currency="EUR"))
    assert run.has_all_steps
    assert run.trained(2, NOW).succeed(None, NOW).state is State.SUCCEEDED
