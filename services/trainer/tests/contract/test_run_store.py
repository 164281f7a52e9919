"""What every RunStore promises: in memory, on SQLite and on PostgreSQL."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from ratchet_kit.errors import AlreadyExists, FailedPrecondition, Failure, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.statistics import Estimate
from ratchet_kit.usage import Usage
from trainer_service.adapters.sql import SqlRunStore
from trainer_service.adapters.tables import runs, steps
from trainer_service.domain.run.checkpoint import Checkpoint, best
from trainer_service.domain.run.ports import RunFilter, RunStore
from trainer_service.domain.run.run import Drawn, Forecast, Notice, Phase, Run, RunId, State, Step, Track
from trainer_service.domain.spec.spec import ProblemSetRef

from ..memory import MemoryRunStore

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def store(database_or_memory: Database | None) -> RunStore:
    return SqlRunStore(database_or_memory) if database_or_memory else MemoryRunStore()


@pytest.fixture
def make_run(make_complete_spec: Any) -> Any:
    def make(number: int = 1) -> Run:
        spec = make_complete_spec(display_name=f"run {number} é", loggers=("console",))
        return Run.create(RunId(f"run_{number}"), spec, NOW + timedelta(seconds=number), "key_1")

    return make


def step(number: int, attempt: int = 1) -> Step:
    return Step(number, {"reward_mean": 0.25, "grad_norm": 1e-9}, "sha256:p", NOW, attempt, platform_faults=2)


def checkpoint(number: int, score: float | None = None) -> Checkpoint:
    interval = None if score is None else Estimate(score, score / 2, (1 + score) / 2)
    return Checkpoint(number, f"/exports/{number}", "sha256:p", NOW, score, interval)


async def running(store: RunStore, run: Run) -> Run:
    await store.create(run, Request.of(run.id))
    return await store.change(run.id, lambda run: run.start(NOW).begin(1, NOW))


async def test_a_run_comes_back_as_it_was(store: RunStore, make_run: Any) -> None:
    run = make_run()
    assert await store.create(run, Request.of("r")) == run
    assert await store.get(run.id) == run
    cancelled = await store.change(run.id, lambda run: run.cancel(NOW, "key_2"))
    assert await store.get(run.id) == cancelled
    assert (cancelled.actor, cancelled.cancel_actor) == ("key_1", "key_2")
    with pytest.raises(NotFound):
        await store.get(RunId("run_0"))


async def test_all_unfinished_runs_are_arranged_at_once(store: RunStore, make_run: Any) -> None:
    for number in (1, 2, 3):
        await store.create(make_run(number), Request.of(f"r{number}"))
    await store.change(RunId("run_2"), lambda run: run.cancel(NOW))
    seen: list[Run] = []

    def start_the_oldest(runs: Sequence[Run]) -> list[Run]:
        seen.extend(runs)
        return [run.start(NOW, "here") for run in runs[:1]]

    changed = await store.arrange(start_the_oldest)
    assert [run.id for run in seen] == ["run_1", "run_3"]
    assert changed == [await store.get(RunId("run_1"))]
    assert (changed[0].state, changed[0].attempt) == (State.STARTING, 1)

    def fail(runs: Sequence[Run]) -> list[Run]:
        raise FailedPrecondition("no")

    with pytest.raises(FailedPrecondition):
        await store.arrange(fail)


async def test_a_place_is_given_once_whoever_gives_it(store: RunStore, make_run: Any) -> None:
    for number in range(1, 7):
        await store.create(make_run(number), Request.of(f"r{number}"))

    def start_one_of_two(runs: Sequence[Run]) -> list[Run]:
        started = sum(run.state is State.STARTING for run in runs)
        queued = [run for run in runs if run.state is State.QUEUED]
        return [run.start(NOW, "here") for run in queued[:1]] if started < 2 else []

    await asyncio.gather(*(store.arrange(start_one_of_two) for _ in range(8)))
    assert (await store.counts())[State.STARTING] == 2


async def test_who_made_room_for_whom_is_kept(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    marked = await store.change(run.id, lambda run: run.preempt(1, "run_9", NOW))
    assert await store.get(run.id) == marked
    queued = await store.change(run.id, lambda run: run.again(1, NOW))
    assert await store.get(run.id) == queued
    assert (queued.state, queued.preempted_by, queued.preemptions) == (State.QUEUED, "run_9", 1)


async def test_a_request_makes_one_run(store: RunStore, make_run: Any) -> None:
    request, other = Request.of("r", "a spec"), Request.of("r", "another")
    assert await store.made_by(request) is None
    first = await store.create(make_run(1), request)
    assert await store.create(make_run(2), request) == first
    assert await store.made_by(request) == first
    for attempt in (store.made_by(other), store.create(make_run(3), other)):
        with pytest.raises(AlreadyExists):
            await attempt
    assert [run.id for run in await store.unfinished()] == [first.id]


async def test_pages_are_newest_first_and_by_state(store: RunStore, make_run: Any) -> None:
    for number in (1, 2, 3):
        await store.create(make_run(number), Request.of(f"r{number}"))
    await store.change(RunId("run_2"), lambda run: run.cancel(NOW))
    assert [run.id for run in await store.page(2, None)] == ["run_3", "run_2"]
    assert [run.id for run in await store.page(2, "run_2")] == ["run_1"]
    assert [run.id for run in await store.page(9, None, RunFilter(State.QUEUED))] == ["run_3", "run_1"]
    assert [run.id for run in await store.unfinished()] == ["run_1", "run_3"]
    counts = await store.counts()
    assert (counts[State.QUEUED], counts[State.CANCELLED], counts.get(State.RUNNING, 0)) == (2, 1, 0)


async def test_pages_are_of_a_model_a_name_a_time(store: RunStore, make_run: Any) -> None:
    first, second, third = (make_run(number) for number in (1, 2, 3))
    first = replace(first, spec=replace(first.spec, base=VersionRef("starter", 2), display_name="Night_1 100 %"))
    second = replace(second, spec=replace(second.spec, output_model="starter", display_name="nightly"))
    for run in (first, second, third):
        await store.create(run, Request.of(run.id))

    async def ids(after: str | None = None, **only: Any) -> list[str]:
        return [run.id for run in await store.page(9, after, RunFilter(**only))]

    assert await ids(model="starter") == ["run_2", "run_1"]
    assert await ids("run_2", model="starter") == ["run_1"]
    assert await ids(model="start") == []
    assert await ids(name="NIGHT") == ["run_2", "run_1"]
    assert await ids(name="night_") == ["run_1"]
    assert await ids(name="100 %", state=State.QUEUED, model="starter") == ["run_1"]
    assert await ids(after_time=NOW + timedelta(seconds=2)) == ["run_3", "run_2"]


async def test_a_refused_change_stores_nothing(store: RunStore, make_run: Any) -> None:
    run = await store.create(make_run(), Request.of("r"))
    with pytest.raises(FailedPrecondition):
        await store.change(run.id, lambda run: run.begin(0, NOW))
    with pytest.raises(FailedPrecondition):
        await store.record_step(run.id, step(1), lambda run, before: run.progress(step(1), before, NOW))
    with pytest.raises(FailedPrecondition):
        await store.record_checkpoint(run.id, checkpoint(1), lambda run, _: run.checkpointed(1, [], NOW))
    assert await store.get(run.id) == run
    assert not await store.steps(run.id, 9, 0)
    assert not await store.checkpoints(run.id, 9, 0)
    with pytest.raises(NotFound):
        await store.change(RunId("run_0"), lambda run: run)


async def test_a_change_keeps_every_field(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    changed = replace(
        run,
        state=State.FAILED,
        failure=Failure("DATA_LOSS", "a reason"),
        step=7,
        attempt=3,
        platform_faults=2**40,
        version=VersionRef("coder", 3),
        trained_time=NOW,
        end_time=NOW,
        update_time=NOW,
        phase=Phase.SAVING,
        phase_time=NOW,
        forecast=Forecast(2**33, 2**34, timedelta(seconds=90)),
        out_of_memory=1,
        notices=(Notice(3, "a sentence", NOW),),
        place="http://ray:8265",
        heartbeat_time=NOW,
        resumes=2,
        resume_actor="key_2",
        tokens=3_000_000_000,
        drawn=(Drawn(ProblemSetRef("mine@2/train", 7, "sha256:2"), 5),),
        drawn_step=6,
        usages=(Usage(), Usage(timedelta(hours=9), prompt_tokens=2**40, cost=0.25, currency="EUR")),
    )
    assert await store.change(run.id, lambda _: changed) == changed
    assert await store.get(run.id) == changed
    assert (await store.get(run.id)).heartbeat_time == NOW  # which is not compared
    assert (await store.get(run.id)).usages == changed.usages  # nor are these


async def test_a_deleted_run_leaves_nothing(store: RunStore, make_run: Any) -> None:
    run, other = await running(store, make_run(1)), await running(store, make_run(2))
    for of in (run, other):
        await store.record_step(of.id, step(1), lambda run, _: run)
        await store.record_checkpoint(of.id, checkpoint(1), lambda run, found: run.checkpointed(1, found, NOW))
    await store.delete(run.id)
    for gone in (store.get(run.id), store.delete(run.id)):
        with pytest.raises(NotFound):
            await gone
    assert not await store.steps(run.id, 9, 0)
    assert not await store.checkpoints(run.id, 9, -1)
    assert await store.made_by(Request.of(run.id)) is None
    assert len(await store.steps(other.id, 9, 0)) == len(await store.checkpoints(other.id, 9, -1)) == 1


@pytest.mark.parametrize("base", [VersionRef("starter", 1), Location("/models/starter"), Location("s3://b/m")])
async def test_a_base_keeps_its_kind(store: RunStore, make_run: Any, base: VersionRef | Location) -> None:
    run = make_run()
    run = replace(run, spec=replace(run.spec, base=base))
    assert (await store.create(run, Request.of("r"))).spec.base == base


async def test_changes_at_the_same_time_come_one_after_another(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    await asyncio.gather(
        *(store.change(run.id, lambda run: replace(run, platform_faults=run.platform_faults + 1)) for _ in range(10))
    )
    assert (await store.get(run.id)).platform_faults == 10


async def test_a_step_that_is_repeated_takes_the_place_of_the_one_before(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    seen = []

    def progress(run: Run, before: Step | None) -> Run:
        seen.append(before)
        return run

    for reported in (step(1), step(2), step(1, attempt=2)):
        await store.record_step(run.id, reported, progress)
    assert seen == [None, None, step(1)]
    assert await store.steps(run.id, 9, 0) == [step(1, attempt=2), step(2)]
    assert await store.steps(run.id, 1, 0) == [step(1, attempt=2)]
    assert await store.steps(run.id, 9, 1) == [step(2)]


async def test_a_metric_may_be_no_number(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    await store.record_step(run.id, replace(step(1), metrics={"grad_norm": math.nan}), lambda run, _: run)
    assert math.isnan((await store.steps(run.id, 1, 0))[0].metrics["grad_norm"])


async def test_the_best_checkpoint_is_found_among_all(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    for made in (checkpoint(1, 0.5), checkpoint(2, 0.75), checkpoint(3), checkpoint(2, 0.25)):
        run = await store.record_checkpoint(run.id, made, lambda run, found: run.checkpointed(1, found, NOW))
        assert run == await store.get(run.id)
    everything = await store.checkpoints(run.id, 9, -1)
    assert everything == [checkpoint(1, 0.5), checkpoint(2, 0.25), checkpoint(3)]
    assert run.best_checkpoint == best(everything) == checkpoint(1, 0.5)
    assert await store.checkpoints(run.id, 1, 1) == [checkpoint(2, 0.25)]


async def test_a_score_that_comes_late_is_a_metric_of_its_step(store: RunStore, make_run: Any) -> None:
    run = await running(store, make_run())
    for number in (1, 2):
        await store.record_step(run.id, step(number), lambda run, _: run)
        await store.record_checkpoint(run.id, checkpoint(number), lambda run, found: run.checkpointed(1, found, NOW))
    sure = Estimate(0.5, 0.25, 0.75)
    for change in (
        lambda one: one.measured_by("eval_1", "/exports/1"),
        lambda one: one.scored(sure, "/exports/1"),
    ):
        run = await store.change_checkpoint(run.id, 1, change, lambda run, found: run.chosen(found, NOW))
    scored = Checkpoint(1, "/exports/1", "sha256:p", NOW, 0.5, sure, "eval_1")
    assert await store.checkpoints(run.id, 9, -1) == [scored, checkpoint(2)]
    assert (await store.get(run.id)).best_checkpoint == run.best_checkpoint == scored
    late = {"validation_score": 0.5, "validation_score_low": 0.25, "validation_score_high": 0.75}
    assert [one.metrics for one in await store.steps(run.id, 9, 0)] == [step(1).metrics | late, step(2).metrics]

    with pytest.raises(FailedPrecondition):
        again = run.best_checkpoint.scored
        await store.change_checkpoint(run.id, 1, lambda _: again(sure, "/exports/1"), lambda run, _: run)
    left = lambda one: one.left_unscored("it failed", "/exports/2")  # noqa: E731
    await store.change_checkpoint(run.id, 2, left, lambda run, found: run.chosen(found, NOW))
    assert (await store.checkpoints(run.id, 9, 1))[0].unscored == "it failed"
    with pytest.raises(NotFound):
        await store.change_checkpoint(run.id, 3, left, lambda run, _: run)
    waiting = await store.change(run.id, lambda run: replace(run, waits_for="step 2: eval_2"))
    assert await store.get(run.id) == waiting


async def test_checkpoints_that_others_superseded(store: RunStore, make_run: Any) -> None:
    for number in (1, 2):
        run = await running(store, make_run(number))
        for made in (checkpoint(1, 0.5), checkpoint(2, 0.75), checkpoint(3)):
            await store.record_checkpoint(run.id, made, lambda run, found: run.checkpointed(1, found, NOW))
    await store.change(RunId("run_1"), lambda run: run.cancel(NOW, ""))
    assert await store.superseded(NOW) == []
    superseded = await store.superseded(NOW + timedelta(seconds=1))
    assert [(id, one.step) for id, one in superseded] == [("run_1", 1), ("run_1", 3)]
    await store.delete_checkpoint(RunId("run_1"), 1)
    await store.delete_checkpoint(RunId("run_1"), 9)
    assert [one.step for one in await store.checkpoints(RunId("run_1"), 9, -1)] == [2, 3]
    assert (await store.get(RunId("run_1"))).best_checkpoint == checkpoint(2, 0.75)


async def test_a_run_of_another_version_of_the_service_hides_no_other(database: Database, make_run: Any) -> None:
    store = SqlRunStore(database)
    for number in (1, 2, 3):
        run = make_run(number)
        await store.create(run, Request.of(run.id))
    async with database.writing() as connection:
        await connection.execute(update(runs).where(runs.c.id == "run_2").values(spec='{"unheard": "of"}'))
    assert [run.id for run in await store.unfinished()] == ["run_1", "run_3"]
    assert [run.id for run in await store.page(2, None)] == ["run_3", "run_1"]
    assert [run.id for run in await store.arrange(lambda runs: runs)] == ["run_1", "run_3"]


async def test_a_step_that_cannot_be_read_hides_no_other(database: Database, make_run: Any) -> None:
    store = SqlRunStore(database)
    run = await running(store, make_run())
    for number in (1, 2, 3):
        await store.record_step(run.id, step(number), lambda run, before: run)
    async with database.writing() as connection:
        await connection.execute(update(steps).where(steps.c.number == 1).values(metrics="no JSON"))
    assert [one.number for one in await store.steps(run.id, 2, 0)] == [2, 3]


async def test_runs_are_tracked_until_every_tracker_has_all(store: RunStore, make_run: Any) -> None:
    tracks = (Track("mlflow"), Track("tensorboard", step=2, key="k", seen="1 running", fault="away"))
    run = replace(make_run(1), tracks=tracks)
    await store.create(run, Request.of("r1"))
    await store.create(make_run(2), Request.of("r2"))
    (found,) = await store.tracked()
    assert (found.id, found.tracks) == (run.id, tracks)
    done = tuple(replace(track, is_done=True) for track in tracks)
    await store.change(run.id, lambda run: replace(run, tracks=done[:1] + tracks[1:]))
    assert len(await store.tracked()) == 1
    await store.change(run.id, lambda run: replace(run, tracks=done))
    assert await store.tracked() == []
