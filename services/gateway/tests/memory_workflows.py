"""Workflows and schedules in memory, for tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway_service.domain.workflows.schedule import Schedule
from gateway_service.domain.workflows.workflow import Line, Plan, Workflow
from ratchet_kit.errors import NotFound, RatchetError
from ratchet_kit.idempotency import Made, Request
from ratchet_workflows.kinds import Ending, Kind, Outcome


class MemoryWorkflowStore:
    def __init__(self) -> None:
        self.workflows: dict[str, Workflow] = {}
        self._lines: dict[str, list[Line]] = {}
        self._made: Made[str] = Made("workflow")

    async def create(self, workflow: Workflow, request: Request) -> Workflow:
        if existing := await self.find(request):
            return existing
        self.workflows[workflow.id] = workflow
        self._made.add(request, workflow.id)
        return workflow

    async def find(self, request: Request) -> Workflow | None:
        workflow_id = self._made.find(request)
        return None if workflow_id is None else self.workflows[workflow_id]

    async def get(self, workflow_id: str) -> Workflow:
        if workflow_id not in self.workflows:
            raise NotFound(f"workflow {workflow_id} does not exist")
        return self.workflows[workflow_id]

    async def turns(self, model: str) -> int:
        return sum(one.model == model and one.plan.kind is Kind.TURN for one in self.workflows.values())

    async def page(self, limit: int, after: str | None) -> Sequence[Workflow]:
        newest_first = sorted(self.workflows.values(), key=lambda one: one.id, reverse=True)
        return [_listed(one) for one in newest_first if after is None or one.id < after][:limit]

    async def under_way(self) -> Sequence[Workflow]:
        return [_listed(one) for one in self.workflows.values() if not one.state.ended]

    async def change(self, workflow_id: str, change: Callable[[Workflow], Workflow]) -> Workflow:
        self.workflows[workflow_id] = change(await self.get(workflow_id))
        return self.workflows[workflow_id]

    async def add_line(self, workflow_id: str, text: str, now: datetime) -> None:
        lines = self._lines.setdefault(workflow_id, [])
        lines.append(Line(len(lines) + 1, now, text))

    async def lines(self, workflow_id: str, after: int) -> Sequence[Line]:
        return self._lines.get(workflow_id, [])[after:]


class MemoryScheduleStore:
    def __init__(self) -> None:
        self.schedules: dict[str, Schedule] = {}
        self._made: Made[str] = Made("schedule")

    async def create(self, schedule: Schedule, request: Request) -> Schedule:
        if existing := await self.find(request):
            return existing
        self.schedules[schedule.id] = schedule
        self._made.add(request, schedule.id)
        return schedule

    async def find(self, request: Request) -> Schedule | None:
        schedule_id = self._made.find(request)
        return None if schedule_id is None else self.schedules[schedule_id]

    async def get(self, schedule_id: str) -> Schedule:
        if schedule_id not in self.schedules:
            raise NotFound(f"schedule {schedule_id} does not exist")
        return self.schedules[schedule_id]

    async def page(self, limit: int, after: str | None) -> Sequence[Schedule]:
        newest_first = sorted(self.schedules.values(), key=lambda one: one.id, reverse=True)
        return [one for one in newest_first if after is None or one.id < after][:limit]

    async def due(self, now: datetime) -> Sequence[Schedule]:
        return sorted((one for one in self.schedules.values() if one.next_time <= now), key=lambda one: one.next_time)

    async def change(self, schedule_id: str, change: Callable[[Schedule], Schedule]) -> Schedule:
        self.schedules[schedule_id] = change(await self.get(schedule_id))
        return self.schedules[schedule_id]

    async def delete(self, schedule_id: str) -> None:
        await self.get(schedule_id)
        self._made.remove({schedule_id})
        del self.schedules[schedule_id]


class ScriptedRunner:
    """A `Runner` whose workflows end at once. `refusal`: of the next check; `error`: of the next work."""

    def __init__(self) -> None:
        self.refusal: RatchetError | None = None
        self.error: RatchetError | None = None
        self.ending = Ending(Outcome.SUCCEEDED, "starter@2 is released.")
        self.checked: list[str] = []
        """For which keys."""
        self.worked: list[Workflow] = []
        self.abandoned: list[tuple[Mapping[str, Any], str]] = []

    async def check(self, plan: Plan, actor: str) -> str:
        self.checked.append(actor)
        if self.refusal:
            raise self.refusal
        return "starter" if plan.kind is Kind.TURN else ""

    async def work(self, workflow: Workflow, owner: str) -> Ending:
        self.worked.append(workflow)
        if self.error:
            raise self.error
        return self.ending

    async def abandon(self, record: Mapping[str, Any], actor: str) -> None:
        self.abandoned.append((record, actor))


def _listed(workflow: Workflow) -> Workflow:
    return replace(workflow, plan=replace(workflow.plan, text=""), record={})
