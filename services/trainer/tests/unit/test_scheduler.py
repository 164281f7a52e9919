"""Several runs on one cluster, over memory: a test plays their jobs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.work import Priority
from trainer_service.domain.cluster.capacity import Demand, Node
from trainer_service.domain.cluster.ports import JobState
from trainer_service.domain.cluster.scheduler import Sharing
from trainer_service.domain.run.run import Phase, Run, State, Step
from trainer_service.domain.spec.spec import Resources
from trainer_service.main import Service, provision
from trainer_service.settings import Settings

from ..driving import driving, submitted


@asynccontextmanager
async def sharing(trainer: Any, runs: int) -> AsyncIterator[Service]:
    """The service, where so many runs may go on at once."""
    async with provision(
        Settings(), ports=trainer.ports, deadlines=trainer.deadlines, sharing=Sharing(runs)
    ) as service:
        yield service


async def begun(trainer: Any, run: Run, attempt: int = 1, first: int = 1) -> None:
    """Its job is up, and has done a step of three seconds."""
    await submitted(trainer, run, attempt)
    await trainer.reports.started(run.id, attempt)
    await trainer.reports.step(run.id, Step(first, {"time_step_s": 3.0}, "sha256:1", trainer.clock.now(), attempt))


@pytest.fixture
def make(trainer: Any, make_spec: Callable[..., Any]) -> Any:
    async def make_run(name: str, priority: str = "normal", **changes: Any) -> Run:
        trainer.clock.advance(timedelta(seconds=1))
        run: Run = await trainer.create(name, make_spec(priority=priority, steps=100, **changes))
        return run

    return make_run


async def test_one_after_the_other_where_there_is_one_place(trainer: Any, make: Any) -> None:
    first, second = await make("r1"), await make("r2")
    async with driving(trainer, first.id):
        await submitted(trainer, first, 1)
        await asyncio.wait_for(trainer.driver.drive(second.id), 5)  # it returns: the slot is for others
        assert trainer.jobs.submitted == [(first.id, 1)]
        waiting = await trainer.runs.get(second.id)
        assert (waiting.state, waiting.attempt) == (State.QUEUED, 0)
        assert waiting.waits_for == f"the one place for runs ({first.id} is under way)"
        assert [run.waits_for for run in (await trainer.runs.page(10, "")).items] == [waiting.waits_for, ""]
        assert await trainer.store.get(second.id) == second, "what it waits for is not stored"


async def test_those_whose_turn_it_is_go_to_the_workers(trainer: Any, make: Any) -> None:
    low, high = await make("r1", "low"), await make("r2", "high")
    trainer.queue.flush()
    async with sharing(trainer, runs=1) as service:
        await service.scheduler.look()
        await service.scheduler.look()
        assert trainer.queue.ids == [high.id], "once, and not the one that waits"
        assert (await trainer.queue.take(timedelta(0))).priority is Priority.HIGH
    async with sharing(trainer, runs=2) as service:
        await service.scheduler.look()
        assert trainer.queue.ids == [low.id]


async def test_a_run_makes_room_after_a_step_and_goes_on_afterwards(trainer: Any, make: Any) -> None:
    low = await make("r1", "low")
    async with sharing(trainer, runs=1) as service, driving(trainer, low.id) as driver:
        await submitted(trainer, low, 1)
        await trainer.reports.started(low.id, 1)
        high = await make("r2", "high")
        await service.scheduler.look()
        reply = await trainer.reports.heartbeat(low.id, 1)
        assert not reply.preempted, "it has done no step: an attempt brings a run further"
        await begun(trainer, low)
        await service.scheduler.look()
        assert (await trainer.reports.heartbeat(low.id, 1)).preempted
        assert await service.scheduler.start(high.id) is None, "not before the job is gone"
        assert (await service.runs.get(high.id)).waits_for.endswith(f"{low.id} will make room after this step")

        trainer.jobs.end(low.id, 1)  # it has saved
        await asyncio.wait_for(driver, 5)
        stopped = await trainer.store.get(low.id)
        assert (stopped.state, stopped.preempted_by, stopped.preemptions) == (State.QUEUED, high.id, 1)
        assert stopped.futile_attempts == 0
        assert stopped.notices[-1].message == (
            f"pre-empted by {high.id}: it goes on at its last checkpoint when there is room again"
        )
        assert trainer.policies.released[-1] == (low.id, 1)
        with pytest.raises(FailedPrecondition, match="is QUEUED"):
            await trainer.reports.heartbeat(low.id, 1)

        await service.scheduler.look()
        assert trainer.queue.ids.count(high.id) == 1
        async with driving(trainer, high.id):
            await submitted(trainer, high, 1)
            assert await service.scheduler.start(low.id) is None
            await trainer.runs.cancel(high.id)
        async with driving(trainer, low.id):
            await begun(trainer, low, 2, first=2)
            on = await trainer.store.get(low.id)
            assert (on.state, on.attempt, on.step, on.preempted_by) == (State.RUNNING, 2, 2, "")


async def test_a_run_goes_on_where_the_higher_one_is_cancelled(trainer: Any, make: Any) -> None:
    low = await make("r1", "low")
    async with sharing(trainer, runs=1) as service, driving(trainer, low.id):
        await begun(trainer, low)
        high = await make("r2", "high")
        await service.scheduler.look()
        assert (await trainer.reports.heartbeat(low.id, 1)).preempted
        await trainer.runs.cancel(high.id)
        await service.scheduler.look()
        assert not (await trainer.reports.heartbeat(low.id, 1)).preempted


async def test_a_run_that_soon_ends_is_waited_for(trainer: Any, make: Any) -> None:
    low = await make("r1", "low")
    async with sharing(trainer, runs=1) as service, driving(trainer, low.id):
        await begun(trainer, low, first=60)  # 40 steps of 3 s are two minutes
        await make("r2", "high")
        await service.scheduler.look()
        assert not (await trainer.reports.heartbeat(low.id, 1)).preempted


async def test_two_services_at_one_cluster_give_no_room_twice(trainer: Any, make: Any) -> None:
    runs = [await make(f"r{number}") for number in range(6)]
    async with sharing(trainer, runs=2) as one, sharing(trainer, runs=2) as other:
        started = await asyncio.gather(
            *(service.scheduler.start(run.id) for run in runs for service in (one, other, one))
        )
    assert [run.id for run in started if run] == [run.id for run in runs[:2]]


async def test_a_lost_node_costs_one_attempt_and_the_run_waits_for_one(trainer: Any, make: Any) -> None:
    trainer.jobs.has = [Node(16, 1), Node(16, 2)]
    run = await make("r1", resources=Resources(accelerators_per_node=2))
    async with driving(trainer, run.id) as driver:
        await begun(trainer, run)
        trainer.jobs.has = [Node(16, 1)]
        trainer.jobs.end(run.id, 1, "it ended with exit code 75")
        await asyncio.wait_for(driver, 5)
    for _ in range(9):
        await trainer.driver.drive(run.id)
    waiting = await trainer.runs.get(run.id)
    assert (waiting.state, waiting.attempt) == (State.QUEUED, 1)
    assert waiting.waits_for == ("a larger cluster, or a node to come back: it needs 2 accelerators: 1 of 1 are free")
    trainer.jobs.has = [Node(16, 1), Node(16, 2)]
    async with driving(trainer, run.id):
        await begun(trainer, run, 2, first=2)


async def test_a_job_that_finds_no_room_costs_nothing(trainer: Any, make: Any) -> None:
    """What others than this service have taken is not known beforehand."""
    run = await make("r1")
    async with driving(trainer, run.id):
        for attempt in range(1, 6):  # three would be too many of any other end
            await submitted(trainer, run, attempt)
            trainer.jobs.end(run.id, attempt, no_room=True)
        await submitted(trainer, run, 6)
    now = await trainer.store.get(run.id)
    assert (now.state, now.futile_attempts) == (State.STARTING, 1)
    assert now.notices[-1].message == "attempt 5: no room on the cluster for its ranks"


async def test_a_run_that_has_trained_leaves_its_room(trainer: Any, make: Any) -> None:
    first, second = await make("r1", max_tokens=1, output_model="coder"), await make("r2")
    trainer.registry.down = True
    async with driving(trainer, first.id):
        await submitted(trainer, first, 1)
        await trainer.reports.started(first.id, 1)
        now = trainer.clock.now()
        await trainer.reports.step(first.id, Step(1, {"tokens_total": 9.0}, "sha256:1", now, 1))
        await trainer.reports.finished(first.id, 1, None)
        trainer.jobs.end(first.id, 1)
        async with driving(trainer, second.id):
            await submitted(trainer, second, 1)
    assert (await trainer.jobs.status(first.id, 1)).state is JobState.ENDED


async def test_a_cluster_hears_what_is_wanted_of_it_while_runs_wait(trainer: Any, make: Any) -> None:
    trainer.jobs.has = []
    high, low, last = await make("r1", "high"), await make("r2", "low"), await make("r3", "low")
    async with sharing(trainer, runs=2) as service:
        await service.scheduler.look()
        wanted = [Demand.of(run) for run in (high, low)]
        assert list(trainer.jobs.wanted) == wanted, "of as many as may be under way, in their turn"
        overview = await service.scheduler.cluster()
        assert [run.id for run in overview.waiting] == [high.id, low.id, last.id]
        assert overview.waiting[0].waits_for.startswith("a larger cluster")
        trainer.jobs.has = [Node(cpus=32, accelerators=1)]
        async with driving(trainer, high.id):
            await submitted(trainer, high, 1)
            for run in (low, last):
                await trainer.runs.cancel(run.id)
            await service.scheduler.look()
            assert list(trainer.jobs.wanted) == wanted[:1], "its ranks are not placed yet"
            await trainer.reports.started(high.id, 1)
            await service.scheduler.look()
            assert list(trainer.jobs.wanted) == wanted[:1], "nor while it looks for room"
            await trainer.reports.phase(high.id, 1, Phase.GENERATING)
            await service.scheduler.look()
            assert list(trainer.jobs.wanted) == []
            assert list((await service.scheduler.cluster()).holders.values()) == [(high.id,)]
