"""One suite for the stores of workflows and schedules, in memory, on SQLite and on PostgreSQL."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway_service.adapters.sql.workflows import SqlScheduleStore, SqlWorkflowStore
from gateway_service.domain.workflows.ports import ScheduleStore, WorkflowStore
from gateway_service.domain.workflows.schedule import Schedule, Trigger
from gateway_service.domain.workflows.workflow import Plan, State, Workflow
from ratchet_kit.errors import AlreadyExists, NotFound
from ratchet_kit.sql import Database
from ratchet_workflows.kinds import Ending, Kind, Outcome

from ..memory_workflows import MemoryScheduleStore, MemoryWorkflowStore
from .test_stores import NOW, request

Rooms = tuple[WorkflowStore, ScheduleStore]
PLAN = Plan(Kind.TURN, "improve.yaml", "model: starter")


@pytest.fixture
def rooms(database_or_memory: Database | None) -> Rooms:
    if database_or_memory is None:
        return MemoryWorkflowStore(), MemoryScheduleStore()
    return SqlWorkflowStore(database_or_memory), SqlScheduleStore(database_or_memory)


def workflow(number: int = 1, plan: Plan = PLAN) -> Workflow:
    return Workflow(f"flow_{number}", plan, "key_1", NOW, "starter" if plan is PLAN else "", number, "sched_1")


def schedule(number: int = 1, trigger: Trigger = Trigger("0 3 * * 1")) -> Schedule:
    return Schedule(f"sched_{number}", PLAN, trigger, "key_1", "starter", NOW, NOW + timedelta(minutes=number))


async def test_a_workflow_is_given_back_as_it_was_stored(rooms: Rooms) -> None:
    store, _ = rooms
    one, study = workflow(), workflow(2, Plan(Kind.STUDY, "study.yaml", "seeds: 2"))
    assert await store.create(one, request()) == one
    assert await store.create(study, request()) == one == await store.find(request())
    assert await store.find(request(2)) is None
    with pytest.raises(AlreadyExists):
        await store.create(study, request(content="another"))
    await store.create(study, request(2))
    assert (await store.get("flow_2"), await store.turns("starter"), await store.turns("other")) == (study, 1, 0)
    assert [item.id for item in await store.page(5, None)] == ["flow_2", "flow_1"]
    assert [item.id for item in await store.page(5, "flow_2")] == ["flow_1"]
    with pytest.raises(NotFound):
        await store.get("flow_9")


async def test_changes_are_kept_and_lists_are_without_what_is_long(rooms: Rooms) -> None:
    store, _ = rooms
    await store.create(workflow(), request())
    await store.change("flow_1", lambda it: it.claim("a", NOW, timedelta(seconds=30)).keep("a", {"run": "run_1"}))
    changed = await store.change("flow_1", lambda it: it.say("a", "step 1"))
    assert await store.get("flow_1") == changed
    assert (changed.state, changed.record, changed.sentence) == (State.RUNNING, {"run": "run_1"}, "step 1")
    for (listed,) in (await store.page(5, None), await store.under_way()):
        assert (listed.plan.text, listed.record) == ("", {})
        assert replace(listed, plan=PLAN, record=changed.record) == changed
    await store.change("flow_1", lambda it: it.end("a", Ending(Outcome.REFUSED, "Too small."), NOW))
    assert await store.under_way() == []
    with pytest.raises(NotFound):
        await store.change("flow_9", lambda it: it)


async def test_lines_come_in_their_order(rooms: Rooms) -> None:
    store, _ = rooms
    for flow, text in (("flow_1", "one"), ("flow_2", "other"), ("flow_1", "two\x00")):
        await store.add_line(flow, text, NOW)
    assert [(line.number, line.text[:3]) for line in await store.lines("flow_1", 0)] == [(1, "one"), (2, "two")]
    assert [line.number for line in await store.lines("flow_1", 1)] == [2]
    assert await store.lines("flow_9", 0) == []


@pytest.mark.parametrize(
    "trigger", [Trigger("0 3 * * 1"), Trigger(every=timedelta(days=7)), Trigger(when_feedback=500)]
)
async def test_schedules(rooms: Rooms, trigger: Trigger) -> None:
    _, store = rooms
    one, two = schedule(1, trigger), schedule(2, trigger)
    assert await store.create(one, request()) == one
    assert await store.create(two, request()) == one == await store.find(request())
    await store.create(two, request(2))
    assert (await store.get("sched_2"), await store.page(5, None)) == (two, [two, one])
    assert (await store.page(5, "sched_2"), await store.due(NOW)) == ([one], [])
    assert await store.due(NOW + timedelta(minutes=2)) == [one, two]
    changed = await store.change("sched_1", lambda it: replace(it, workflow_id="flow_1", fault="it is away"))
    assert await store.get("sched_1") == changed
    await store.delete("sched_1")
    for missing in (store.get("sched_1"), store.delete("sched_1"), store.change("sched_1", lambda it: it)):
        with pytest.raises(NotFound):
            await missing
