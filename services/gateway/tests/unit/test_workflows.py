"""Workflows: created once, done by whichever worker lives, cancelled and resumed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway_service.domain.keys.caller import caller, set_caller
from gateway_service.domain.workflows.workflow import Plan, State, Workflow
from gateway_service.domain.workflows.workflows import MAX_TEXT, Workflows
from gateway_service.worker import WorkflowWork
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_kit.worker import Timing, Worker
from ratchet_testing import ManualClock
from ratchet_testing.queue import MemoryQueue
from ratchet_workflows.kinds import Ending, Kind, Outcome

from ..memory_workflows import MemoryWorkflowStore, ScriptedRunner

TURN = Plan(Kind.TURN, "improve.yaml", "model: starter")
STUDY = Plan(Kind.STUDY, "study.yaml", "seeds: 2")
LEASE = timedelta(seconds=30)


class Room:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.store, self.queue, self.runner = MemoryWorkflowStore(), MemoryQueue(), ScriptedRunner()
        self.workflows = Workflows(self.store, self.queue, self.runner, clock, timedelta(seconds=0.001))

    def work(self, owner: str) -> WorkflowWork:
        return WorkflowWork(owner, self.store, self.runner, self.clock, LEASE)

    async def do(self, workflow: Workflow, owner: str = "a") -> Workflow:
        work = self.work(owner)
        await work.do(await work.claim(workflow.id))
        return await self.store.get(workflow.id)


@pytest.fixture
def room(clock: ManualClock) -> Room:
    return Room(clock)


async def test_a_request_makes_one_workflow_and_queues_it(room: Room) -> None:
    made = await room.workflows.create("r1", TURN, "key_1")
    assert await room.workflows.create("r1", TURN, "key_1") == made
    assert (made.state, made.model, made.number, made.actor) == (State.QUEUED, "starter", 1, "key_1")
    assert (room.queue.ids, room.runner.checked) == ([made.id], ["key_1"])
    with pytest.raises(AlreadyExists):
        await room.workflows.create("r1", STUDY, "key_1")
    assert (await room.workflows.create("r2", TURN, "key_1")).number == 2
    assert (await room.workflows.create("r3", STUDY, "key_1")).number == 0


async def test_a_plan_is_looked_at_before_anything_is_stored(room: Room) -> None:
    looked = await room.workflows.create("r1", TURN, "key_1", validate_only=True)
    assert looked.model == "starter"
    for plan in (Plan(Kind.TURN, "", ""), Plan(Kind.TURN, "x", "y" * (MAX_TEXT + 1))):
        with pytest.raises(InvalidArgument, match=r"plan\.text"):
            await room.workflows.create("", plan, "key_1")
    room.runner.refusal = InvalidArgument("improve.yaml:3: train.steps must be 5 or more.")
    with pytest.raises(InvalidArgument, match=r"improve.yaml:3"):
        await room.workflows.create("", TURN, "key_1")
    assert (room.store.workflows, room.queue.ids) == ({}, [])


async def test_a_worker_does_it_and_what_came_of_it_is_stored(room: Room) -> None:
    made = await room.workflows.create("", TURN, "key_1")
    done = await room.do(made)
    assert (done.state, done.sentence, done.attempts) == (State.SUCCEEDED, "starter@2 is released.", 1)
    assert (done.start_time, done.end_time) == (room.clock.now(), room.clock.now())
    room.runner.ending = Ending(Outcome.REFUSED, "The gain is too small.")
    refused = await room.do(await room.workflows.create("", TURN, "key_1"))
    assert (refused.state, refused.sentence) == (State.REFUSED, "The gain is too small.")
    with pytest.raises(FailedPrecondition, match="is refused: create another one"):
        await room.workflows.resume(refused.id)


async def test_another_goes_on_with_what_a_dead_worker_had_where_it_was(room: Room) -> None:
    made = await room.workflows.create("", TURN, "key_1")
    await room.work("dead").claim(made.id)
    await room.store.change(made.id, lambda one: one.keep("dead", {"run": "run_1"}))
    room.queue.flush()
    assert await room.work("living").waiting() == []
    room.clock.advance(LEASE)
    worker = Worker(room.queue, room.work("living"), room.clock, timing=Timing.of_lease(LEASE))
    assert await worker.reconcile() == [made.id]
    assert (await room.do(made, "living")).state is State.SUCCEEDED
    assert (room.runner.worked[0].record, room.runner.worked[0].attempts) == ({"run": "run_1"}, 2)
    with pytest.raises(FailedPrecondition):
        await room.store.change(made.id, lambda one: one.keep("dead", {}))


async def test_a_platform_that_is_away_is_no_end_of_it(room: Room) -> None:
    made = await room.workflows.create("", TURN, "key_1")
    room.runner.error = Unavailable("No answer.")
    with pytest.raises(Unavailable):
        await room.do(made)
    assert (await room.store.get(made.id)).state is State.RUNNING


async def test_somebody_without_a_key_cancels_by_the_key_that_created_it(room: Room) -> None:
    made = await room.workflows.create("r", TURN, "key_1")
    set_caller(replace(caller(), id="user_1"))
    await room.workflows.cancel(made.id)
    assert room.runner.abandoned == [({}, "key_1")]


async def test_cancelling_ends_what_is_under_way_and_resuming_takes_it_up_again(room: Room) -> None:
    made = await room.workflows.create("", TURN, "key_1")
    work = room.work("a")
    claim = await work.claim(made.id)
    await room.store.change(made.id, lambda one: one.keep("a", {"run": "run_1"}))
    cancelled = await room.workflows.cancel(made.id)
    assert (cancelled.state, room.runner.abandoned) == (State.CANCELLED, [({"run": "run_1"}, "")])
    with pytest.raises(FailedPrecondition):
        await work.renew(claim)
    assert (await room.workflows.cancel(made.id)).state is State.CANCELLED
    resumed = await room.workflows.resume(made.id)
    assert (resumed.state, resumed.record, resumed.attempts) == (State.QUEUED, {"run": "run_1"}, 0)
    assert (await room.do(made)).state is State.SUCCEEDED
    with pytest.raises(FailedPrecondition, match="is succeeded"):
        await room.workflows.cancel(made.id)
    for missing in (room.workflows.get("flow_9"), room.workflows.cancel("flow_9"), room.workflows.resume("flow_9")):
        with pytest.raises(NotFound):
            await missing


async def test_whoever_watches_gets_every_line_once(room: Room) -> None:
    made = await room.workflows.create("", TURN, "key_1")
    seen: list[str] = []
    async for one in room.workflows.watch(made.id, 0):
        seen += [line.text for line in one.lines]
        if not seen:
            await room.store.add_line(made.id, "== measure starter@1", room.clock.now())
        elif len(seen) == 1:
            await room.store.add_line(made.id, "eval_1: done", room.clock.now())
            await room.do(made)
    assert seen == ["== measure starter@1", "eval_1: done"]
    assert [len(one.lines) async for one in room.workflows.watch(made.id, 1)] == [1]
