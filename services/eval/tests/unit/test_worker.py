"""A reason that the measurer gives ends the evaluation; only a lost hold leaves it to another worker."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.sets import Imported
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from eval_service.worker import EvaluationWork, Leftovers
from ratchet_kit.errors import (
    Aborted,
    Cancelled,
    FailedPrecondition,
    Failure,
    Internal,
    NotFound,
    RatchetError,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.names import VersionRef
from ratchet_kit.work import LEFT_ALONE

from ..conftest import MemoryEvents

SPEC = EvaluationSpec(VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),))


async def claimed(world: Any) -> tuple[EvaluationWork, Evaluation]:
    work = EvaluationWork("me", world.store, world.measurer, world.meter, world.events, world.clock, timedelta(hours=9))
    return work, await work.claim((await world.evaluations.create(SPEC, "")).evaluation.id)


@pytest.mark.parametrize("reason", [FailedPrecondition("it could not be loaded"), NotFound("no such folder")])
async def test_a_policy_that_cannot_be_loaded_fails_it_at_once(world: Any, reason: RatchetError) -> None:
    world.host.open_faults = [reason]
    work, evaluation = await claimed(world)
    await work.do(evaluation)
    ended = await world.store.get(evaluation.id)
    assert (ended.state, ended.failure) == (State.FAILED, Failure.of(reason))


async def test_the_end_of_an_evaluation_is_told_of_once(world: Any) -> None:
    work, measured = await claimed(world)
    await work.do(measured)
    world.host.open_faults = [NotFound("no such folder")]
    work, broken = await claimed(world)
    await work.do(broken)
    work, unwanted = await claimed(world)
    for _ in range(2):
        await world.evaluations.cancel(unwanted.id)
        world.clock.advance(timedelta(seconds=1))
    assert world.events.told == [(measured.id, "SUCCEEDED"), (broken.id, "FAILED"), (unwanted.id, "CANCELLED")]


async def test_it_is_left_to_who_holds_it_now(world: Any) -> None:
    work, evaluation = await claimed(world)
    world.clock.advance(timedelta(hours=10))
    now = world.clock.now()
    await world.store.change(evaluation.id, lambda present: present.claim("another", now, timedelta(hours=9)))
    with pytest.raises(Aborted):
        await work.do(evaluation)
    assert (await world.store.get(evaluation.id)).state is State.RUNNING


async def test_what_was_cancelled_stays_so(world: Any) -> None:
    work, evaluation = await claimed(world)
    await world.evaluations.cancel(evaluation.id)
    with pytest.raises(FailedPrecondition):
        await work.do(evaluation)
    assert (await world.store.get(evaluation.id)).state is State.CANCELLED


@pytest.mark.parametrize("step", ["add_problems", "add_samples", "judge_samples", "counts"])
async def test_one_that_is_cancelled_and_deleted_between_two_beats_is_left(
    world: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    work, evaluation = await claimed(world)
    real, calls = getattr(world.store, step), []

    async def too_late(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            await world.evaluations.cancel(evaluation.id)
            await world.evaluations.delete(evaluation.id)
        return await real(*arguments)

    monkeypatch.setattr(world.store, step, too_late)
    with pytest.raises(LEFT_ALONE):
        await work.do(evaluation)
    assert calls


async def test_a_database_that_is_away_for_a_moment_fails_nothing(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work, evaluation = await claimed(world)

    async def away(*_: Any) -> None:
        raise Unavailable("the database is being restarted")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "add_problems", away)
        with pytest.raises(Unavailable):  # the worker tries it again
            await work.do(evaluation)
    assert (await world.store.get(evaluation.id)).state is State.RUNNING
    await work.do(evaluation)
    assert (await world.store.get(evaluation.id)).state is State.SUCCEEDED


@pytest.mark.parametrize("fault", [Internal("a bug there"), Cancelled("it is stopped"), Unauthenticated("a new token")])
async def test_what_says_nothing_of_the_policy_is_waited_out(world: Any, fault: RatchetError) -> None:
    world.host.open_faults = [fault]
    world.host.faults = [fault]
    world.environment.faults = [fault]
    work, evaluation = await claimed(world)
    await work.do(evaluation)
    assert (await world.store.get(evaluation.id)).state is State.SUCCEEDED


@pytest.mark.parametrize("fault", [Unavailable("away"), Internal("a bug"), KeyError("ours")])
async def test_a_leftover_that_cannot_be_unloaded_holds_up_no_other(world: Any, fault: Exception) -> None:
    closed = []

    class Host:
        async def holders(self) -> list[str]:
            return ["eval_1", "eval_2"]

        async def close(self, holder: str) -> None:
            if holder == "eval_1":
                raise fault
            closed.append(holder)

    class Store:
        async def get(self, id: str) -> None:
            raise NotFound(id)

    leftovers = Leftovers(Store(), Host(), MemoryEvents(), world.clock, timedelta(0), timedelta(0))  # type: ignore[arg-type]
    await leftovers.close()
    assert closed == ["eval_2"]


async def test_one_whose_caller_left_ends_and_was_never_work(world: Any) -> None:
    spec = replace(SPEC, model=None, imported_samples=2)
    id = (await world.evaluations.create(spec, "")).evaluation.id
    other = (await world.evaluations.create(SPEC, "")).evaluation.id
    work = EvaluationWork("me", world.store, world.measurer, world.meter, world.events, world.clock, timedelta(hours=9))
    leftovers = Leftovers(world.store, world.host, world.events, world.clock, timedelta(0), timedelta(minutes=15))
    assert [one.id for one in await work.waiting()] == [other]
    world.clock.advance(timedelta(minutes=10))
    await world.evaluations.add(id, [Imported("p00", 0, "pass")])
    world.clock.advance(timedelta(minutes=10))
    await leftovers.clear()
    assert (await world.store.get(id)).state is State.QUEUED, "the last sample came 10 minutes ago"
    world.clock.advance(timedelta(minutes=5))
    await leftovers.clear()
    await leftovers.clear()
    ended = await world.store.get(id)
    assert (ended.state, ended.failure.message) == (State.FAILED, "1 of 2 samples were added, and none for 900 s")
    assert world.events.told == [(id, "FAILED")]
    assert (await world.store.get(other)).state is State.QUEUED
