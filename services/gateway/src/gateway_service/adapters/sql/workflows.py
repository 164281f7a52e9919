"""WorkflowStore and ScheduleStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, delete, func, select, update

from gateway_service.adapters.sql.tables import schedules, workflow_lines, workflows
from gateway_service.domain.workflows.schedule import Schedule, Trigger
from gateway_service.domain.workflows.workflow import MAX_SENTENCE, Line, Plan, State, Workflow
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, hold_of, hold_row, row_of, value_of
from ratchet_kit.text import storable
from ratchet_workflows.kinds import Kind

MAX_LINES = 1000
"""In one read."""
LISTED = [column for column in workflows.c if column.name not in ("text", "record")]


class SqlWorkflowStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, workflow: Workflow, request: Request) -> Workflow:
        await self._database.insert_if_absent(workflows, _row(workflow) | request.columns)
        stored = await self.find(request)
        assert stored is not None, "an id is new, so that only the request's can be taken"
        return stored

    async def find(self, request: Request) -> Workflow | None:
        row = await self._database.made_by(request, select(workflows), "workflow")
        return None if row is None else _workflow(row)

    async def get(self, workflow_id: str) -> Workflow:
        row = await self._database.first(select(workflows).where(workflows.c.id == workflow_id))
        if row is None:
            raise _missing("workflow", workflow_id)
        return _workflow(row)

    async def turns(self, model: str) -> int:
        query = select(func.count()).where(workflows.c.model == model, workflows.c.kind == Kind.TURN)
        row = await self._database.first(query.select_from(workflows))
        return 0 if row is None else int(row[0])

    async def page(self, limit: int, after: str | None) -> Sequence[Workflow]:
        query = select(*LISTED).order_by(workflows.c.id.desc())
        if after is not None:
            query = query.where(workflows.c.id < after)
        return await self._database.readable(query, _workflow, limit)

    async def under_way(self) -> Sequence[Workflow]:
        under_way = workflows.c.state.in_([str(state) for state in State if not state.ended])
        return await self._database.readable(select(*LISTED).where(under_way).order_by(workflows.c.id), _workflow)

    async def change(self, workflow_id: str, change: Callable[[Workflow], Workflow]) -> Workflow:
        async with self._database.writing() as connection:
            query = select(workflows).where(workflows.c.id == workflow_id).with_for_update()
            row = (await connection.execute(query)).first()
            if row is None:
                raise _missing("workflow", workflow_id)
            changed = change(_workflow(row))
            await connection.execute(update(workflows).where(workflows.c.id == workflow_id).values(_row(changed)))
        return changed

    async def add_line(self, workflow_id: str, text: str, now: datetime) -> None:
        of_it = workflow_lines.c.workflow_id == workflow_id
        async with self._database.writing() as connection:
            last = (await connection.execute(select(func.max(workflow_lines.c.number)).where(of_it))).scalar() or 0
            line = {"workflow_id": workflow_id, "number": last + 1, "create_time": now}
            await connection.execute(workflow_lines.insert().values(text=storable(text)[:MAX_SENTENCE], **line))

    async def lines(self, workflow_id: str, after: int) -> Sequence[Line]:
        query = select(workflow_lines).where(workflow_lines.c.workflow_id == workflow_id)
        query = query.where(workflow_lines.c.number > after).order_by(workflow_lines.c.number).limit(MAX_LINES)
        return [value_of(Line, row) for row in await self._database.rows(query)]


class SqlScheduleStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, schedule: Schedule, request: Request) -> Schedule:
        await self._database.insert_if_absent(schedules, _schedule_row(schedule) | request.columns)
        stored = await self.find(request)
        assert stored is not None, "an id is new, so that only the request's can be taken"
        return stored

    async def find(self, request: Request) -> Schedule | None:
        row = await self._database.made_by(request, select(schedules), "schedule")
        return None if row is None else _schedule(row)

    async def get(self, schedule_id: str) -> Schedule:
        row = await self._database.first(select(schedules).where(schedules.c.id == schedule_id))
        if row is None:
            raise _missing("schedule", schedule_id)
        return _schedule(row)

    async def page(self, limit: int, after: str | None) -> Sequence[Schedule]:
        query = select(schedules).order_by(schedules.c.id.desc())
        if after is not None:
            query = query.where(schedules.c.id < after)
        return await self._database.readable(query, _schedule, limit)

    async def due(self, now: datetime) -> Sequence[Schedule]:
        query = select(schedules).where(schedules.c.next_time <= now).order_by(schedules.c.next_time)
        return await self._database.readable(query, _schedule)

    async def change(self, schedule_id: str, change: Callable[[Schedule], Schedule]) -> Schedule:
        async with self._database.writing() as connection:
            query = select(schedules).where(schedules.c.id == schedule_id).with_for_update()
            row = (await connection.execute(query)).first()
            if row is None:
                raise _missing("schedule", schedule_id)
            changed = change(_schedule(row))
            await connection.execute(
                update(schedules).where(schedules.c.id == schedule_id).values(_schedule_row(changed))
            )
        return changed

    async def delete(self, schedule_id: str) -> None:
        async with self._database.writing() as connection:
            result = await connection.execute(delete(schedules).where(schedules.c.id == schedule_id))
            if not result.rowcount:
                raise _missing("schedule", schedule_id)


def _missing(what: str, id: str) -> NotFound:
    return NotFound(f"{what} {id} does not exist")


def _plan_row(plan: Plan) -> dict[str, Any]:
    return {"kind": str(plan.kind), "name": storable(plan.name), "text": storable(plan.text)}


def _plan(row: Row[Any]) -> Plan:
    return Plan(Kind(row.kind), row.name, getattr(row, "text", ""))


def _row(workflow: Workflow) -> dict[str, Any]:
    said = {"state": str(workflow.state), "sentence": storable(workflow.sentence), "record": dict(workflow.record)}
    return row_of(workflow, workflows, **_plan_row(workflow.plan), **hold_row(workflow.hold), **said)


def _workflow(row: Row[Any]) -> Workflow:
    record = getattr(row, "record", {})
    return value_of(Workflow, row, plan=_plan(row), hold=hold_of(row), state=State(row.state), record=record)


def _schedule_row(schedule: Schedule) -> dict[str, Any]:
    trigger = schedule.trigger
    seconds = None if trigger.every is None else int(trigger.every.total_seconds())
    triggered = {"cron": trigger.cron, "seconds": seconds, "when_feedback": trigger.when_feedback}
    return row_of(schedule, schedules, **_plan_row(schedule.plan), **triggered, fault=storable(schedule.fault))


def _schedule(row: Row[Any]) -> Schedule:
    every = None if row.seconds is None else timedelta(seconds=row.seconds)
    return value_of(Schedule, row, plan=_plan(row), trigger=Trigger(row.cron, every, row.when_feedback))
