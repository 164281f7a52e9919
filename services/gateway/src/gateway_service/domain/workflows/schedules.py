"""Creates, shows and removes schedules, and creates their workflows when these are due."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from gateway_service.domain.workflows.ports import Runner, ScheduleStore
from gateway_service.domain.workflows.schedule import Schedule, Trigger
from gateway_service.domain.workflows.workflow import Plan
from gateway_service.domain.workflows.workflows import Workflows, check_plan
from ratchet_kit import projects
from ratchet_kit.errors import NotFound, RatchetError, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)

CountFeedback = Callable[[str, datetime | None], Awaitable[int]]
"""Answers of a model with a score, to requests since a time. Raises Unavailable."""


class Schedules:
    """The use cases around schedules."""

    def __init__(
        self,
        store: ScheduleStore,
        workflows: Workflows,
        runner: Runner,
        count_feedback: CountFeedback,
        clock: Clock,
        interval: timedelta,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._runner = runner
        self._count_feedback = count_feedback
        self._clock = clock
        self._interval = interval

    async def create(self, request_id: str, plan: Plan, trigger: Trigger, actor: str) -> Schedule:
        """Idempotent under `request_id`. Raises as `Workflows.create`, and InvalidArgument for a bad
        trigger."""
        check_plan(plan)
        trigger.check(plan.kind)
        request = Request.of(request_id, plan, trigger)
        if existing := await self._store.find(request):
            return existing
        model = await self._runner.check(plan, actor)
        now = self._clock.now()
        made = Schedule(new_id("sch"), plan, trigger, actor, model, now, trigger.next(now))
        return await self._store.create(made, request)

    async def get(self, schedule_id: str) -> Schedule:
        """Raises NotFound."""
        return await self._store.get(schedule_id)

    async def page(self, page_size: int, page_token: str) -> Page[Schedule]:
        """Newest first. Raises InvalidArgument for a page token that no list returned."""
        return await fetch_page(self._store.page, lambda schedule: schedule.id, str, page_size, page_token)

    async def delete(self, schedule_id: str) -> None:
        """Raises NotFound."""
        await self._store.delete(schedule_id)

    async def run(self, stop: asyncio.Event) -> None:
        """Creates what is due until `stop` is set."""
        await every(self._interval, stop, self.tick, name="schedules")

    async def tick(self) -> None:
        """Makes up for the latest due time that was missed while no gateway ran. Raises Unavailable."""
        now = self._clock.now()
        for schedule in await self._store.due(now):
            with surviving("schedule", schedule_id=schedule.id), projects.of_owner(schedule.id):
                await self._take(schedule, now)

    async def _take(self, seen: Schedule, now: datetime) -> None:
        """Several gateways may come here at once: the request id lets them make one workflow."""
        workflow_id, fault = seen.workflow_id, ""
        try:
            if mark := await self._due(seen, now):
                made = await self._workflows.create(f"{seen.id}-{mark}", seen.plan, seen.actor, schedule_id=seen.id)
                workflow_id = made.id
                log.info("schedule.taken", schedule_id=seen.id, workflow_id=made.id)
        except Unavailable:
            raise
        except RatchetError as error:
            fault = error.message
            log.warning("schedule.not_taken", schedule_id=seen.id, reason=fault)

        def taken(present: Schedule) -> Schedule:
            if present.next_time != seen.next_time:
                return present  # another gateway was here
            return replace(present, next_time=seen.trigger.next(now), workflow_id=workflow_id, fault=fault)

        await self._store.change(seen.id, taken)

    async def _due(self, schedule: Schedule, now: datetime) -> str:
        """The mark of its next workflow; empty while the last one has not ended, or feedback is missing."""
        since = None
        if schedule.workflow_id:
            try:
                last = await self._workflows.get(schedule.workflow_id)
            except NotFound:
                last = None
            if last and not last.state.ended:
                return ""
            since = last.create_time if last else None
        wanted = schedule.trigger.when_feedback
        if not wanted:
            return schedule.trigger.due(now).isoformat()
        if await self._count_feedback(schedule.model, since) < wanted:
            return ""
        return f"after-{schedule.workflow_id}"
