"""The needs of workflows from outside."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from gateway_service.domain.workflows.schedule import Schedule
from gateway_service.domain.workflows.workflow import Line, Plan, Workflow
from ratchet_kit.idempotency import Request
from ratchet_workflows.kinds import Ending


class WorkflowStore(Protocol):
    """Stored workflows and their lines. Every method raises Unavailable when the store cannot be reached."""

    async def create(self, workflow: Workflow, request: Request) -> Workflow:
        """Stores it, and returns what was stored first under the request.

        Raises AlreadyExists when the request's id was used for another workflow.
        """
        ...

    async def find(self, request: Request) -> Workflow | None:
        """The workflow that the request made. Raises AlreadyExists as `create`."""
        ...

    async def get(self, workflow_id: str) -> Workflow:
        """Raises NotFound."""
        ...

    async def turns(self, model: str) -> int:
        """How many turns of the model there are."""
        ...

    async def page(self, limit: int, after: str | None) -> Sequence[Workflow]:
        """Up to `limit` workflows older than that of id `after`, newest first; without plans' texts and records."""
        ...

    async def under_way(self) -> Sequence[Workflow]:
        """All that have not ended, without plans' texts and records."""
        ...

    async def change(self, workflow_id: str, change: Callable[[Workflow], Workflow]) -> Workflow:
        """Stores what `change` makes of it, and returns that. Raises NotFound."""
        ...

    async def add_line(self, workflow_id: str, text: str, now: datetime) -> None: ...

    async def lines(self, workflow_id: str, after: int) -> Sequence[Line]:
        """Lines after a number, first to last, not all at once where there are many."""
        ...


class ScheduleStore(Protocol):
    """Stored schedules. Every method raises Unavailable when the store cannot be reached."""

    async def create(self, schedule: Schedule, request: Request) -> Schedule:
        """As `WorkflowStore.create`."""
        ...

    async def find(self, request: Request) -> Schedule | None:
        """As `WorkflowStore.find`."""
        ...

    async def get(self, schedule_id: str) -> Schedule:
        """Raises NotFound."""
        ...

    async def page(self, limit: int, after: str | None) -> Sequence[Schedule]:
        """Up to `limit` schedules older than that of id `after`, newest first."""
        ...

    async def due(self, now: datetime) -> Sequence[Schedule]: ...

    async def change(self, schedule_id: str, change: Callable[[Schedule], Schedule]) -> Schedule:
        """Stores what `change` makes of it, and returns that. Raises NotFound."""
        ...

    async def delete(self, schedule_id: str) -> None:
        """Raises NotFound."""
        ...


class Runner(Protocol):
    """Does what a plan says, for a key: with its scopes, and under its id in the audit log."""

    async def check(self, plan: Plan, actor: str) -> str:
        """The model that becomes better; empty for a study. Raises InvalidArgument that names every fault of the plan,
        PermissionDenied or FailedPrecondition for what a service refuses, Unavailable."""
        ...

    async def work(self, workflow: Workflow, owner: str) -> Ending:
        """Goes on with a workflow that `owner` has claimed until it has ended. Raises Unavailable where a part of the
        platform is away for long, Aborted and FailedPrecondition where it is not the owner's any more."""
        ...

    async def abandon(self, record: Mapping[str, Any], actor: str) -> None:
        """Cancels what a workflow has under way. Raises Unavailable."""
        ...
