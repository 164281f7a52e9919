"""Schedules: each due time makes one workflow at most, whatever gateways do or miss."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.workflows.schedule import Trigger
from gateway_service.domain.workflows.schedules import Schedules
from gateway_service.domain.workflows.workflow import State, Workflow
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_testing import ManualClock
from ratchet_workflows.kinds import Kind

from ..memory_workflows import MemoryScheduleStore
from .test_workflows import STUDY, TURN, Room

DAILY = Trigger(every=timedelta(days=1))


class Scheduled(Room):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.schedules_store = MemoryScheduleStore()
        self.scored = 0
        self.asked: list[datetime | None] = []
        self.schedules, self.other = self.gateway(), self.gateway()

    def gateway(self) -> Schedules:
        count: Callable[[str, datetime | None], Awaitable[int]] = self._count
        return Schedules(self.schedules_store, self.workflows, self.runner, count, self.clock, timedelta(seconds=1))

    async def _count(self, model: str, since: datetime | None) -> int:
        assert model == "starter"
        self.asked.append(since)
        return self.scored

    async def tick_after(self, time: timedelta) -> list[Workflow]:
        self.clock.advance(time)
        await self.schedules.tick()
        await self.other.tick()
        return sorted(self.store.workflows.values(), key=lambda one: one.id)


@pytest.fixture
def room(clock: ManualClock) -> Scheduled:
    return Scheduled(clock)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("trigger", "due", "then"),
    [
        (Trigger("0 3 * * 1"), "2026-11-23T03:00", "2026-11-30T03:00"),
        (Trigger("30 12 28 11 *"), "2026-11-28T12:30", "2027-11-28T12:30"),
        (Trigger("*/5 * * * *"), "2026-11-28T12:30", "2026-11-28T12:35"),
        (DAILY, "2026-11-28T00:00", "2026-11-29T00:00"),
        (Trigger(when_feedback=5), "2026-11-28T12:30", "2026-11-28T12:31"),
    ],
)
def test_due_times_are_of_utc(trigger: Trigger, due: str, then: str) -> None:
    now = at("2026-11-28T12:30")
    assert (trigger.due(now), trigger.next(now)) == (at(due), at(then))


@pytest.mark.parametrize(
    ("trigger", "kind", "said"),
    [
        (Trigger(), Kind.TURN, "one of them"),
        (Trigger("* * * * *", timedelta(hours=1)), Kind.TURN, "one of them"),
        (Trigger("0 3 * *"), Kind.TURN, "cron must be a cron expression of five fields"),
        (Trigger("0 3 * * * *"), Kind.TURN, "five fields"),
        (Trigger("61 3 * * *"), Kind.TURN, "five fields"),
        (Trigger("0 0 30 2 *"), Kind.TURN, "five fields"),
        (Trigger(every=timedelta(seconds=59)), Kind.TURN, "a minute or more"),
        (Trigger(when_feedback=-1), Kind.TURN, "1 or more"),
        (Trigger(when_feedback=5), Kind.STUDY, "is for turns"),
    ],
)
def test_what_is_no_trigger(trigger: Trigger, kind: Kind, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        trigger.check(kind)


async def test_a_due_time_makes_one_workflow_of_two_gateways(room: Scheduled) -> None:
    made = await room.schedules.create("r", TURN, DAILY, "key_1")
    assert await room.schedules.create("r", TURN, DAILY, "key_1") == made
    assert await room.tick_after(timedelta(seconds=1)) == []
    (first,) = await room.tick_after(timedelta(days=1))
    assert (first.schedule_id, first.actor, first.state) == (made.id, "key_1", State.QUEUED)
    present = await room.schedules.get(made.id)
    assert (present.workflow_id, present.fault) == (first.id, "")
    assert present.next_time == DAILY.next(room.clock.now())
    assert len(await room.tick_after(timedelta(days=1))) == 1, "the last one has not ended"
    await room.do(first)
    assert len(await room.tick_after(timedelta(days=1))) == 2


async def test_of_what_was_missed_the_latest_is_made_up_for(room: Scheduled) -> None:
    await room.schedules.create("", STUDY, DAILY, "key_1")
    assert len(await room.tick_after(timedelta(days=9))) == 1


async def test_two_gateways_at_once_make_one(room: Scheduled) -> None:
    made = await room.schedules.create("", STUDY, DAILY, "key_1")
    room.clock.advance(timedelta(days=1))
    seen = await room.schedules_store.get(made.id)
    for gateway in (room.schedules, room.other):
        await gateway._take(seen, room.clock.now())
    assert len(room.store.workflows) == 1


async def test_feedback_makes_a_turn_when_there_is_enough(room: Scheduled) -> None:
    await room.schedules.create("", TURN, Trigger(when_feedback=10), "key_1")
    room.scored = 9
    assert await room.tick_after(timedelta(minutes=1)) == []
    room.scored = 10
    (first,) = await room.tick_after(timedelta(minutes=1))
    await room.do(first)
    room.scored = 3
    assert len(await room.tick_after(timedelta(minutes=1))) == 1
    assert room.asked == [None, None, first.create_time]


async def test_what_keeps_it_from_beginning_is_on_record_and_the_next_time_comes(room: Scheduled) -> None:
    made = await room.schedules.create("", TURN, DAILY, "key_1")
    room.runner.refusal = Unavailable("No answer.")
    await room.tick_after(timedelta(days=1))
    assert (await room.schedules.get(made.id)).next_time <= room.clock.now(), "it is tried again"
    room.runner.refusal = FailedPrecondition("model starter has no champion")
    await room.tick_after(timedelta(0))
    present = await room.schedules.get(made.id)
    assert (present.fault, present.next_time) == ("model starter has no champion", DAILY.next(room.clock.now()))
    room.runner.refusal = None
    assert len(await room.tick_after(timedelta(days=1))) == 1
    assert (await room.schedules.get(made.id)).fault == ""
    await room.schedules.delete(made.id)
    with pytest.raises(NotFound):
        await room.schedules.get(made.id)
