"""Creates, shows, cancels and resumes workflows; a worker does them."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.identities import PERSON
from gateway_service.domain.workflows.ports import Runner, WorkflowStore
from gateway_service.domain.workflows.workflow import Line, Plan, Workflow
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_kit.work import Queue, enqueue, surviving, watch
from ratchet_workflows.kinds import Kind

MAX_NAME = 200
"""Characters."""
MAX_TEXT = 1 << 20
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Watched:
    workflow: Workflow
    lines: Sequence[Line]
    """New ones."""


class Workflows:
    """The use cases around workflows."""

    def __init__(self, store: WorkflowStore, queue: Queue, runner: Runner, clock: Clock, watch_poll: timedelta) -> None:
        self._store = store
        self._queue = queue
        self._runner = runner
        self._clock = clock
        self._watch_poll = watch_poll

    async def create(
        self, request_id: str, plan: Plan, actor: str, *, validate_only: bool = False, schedule_id: str = ""
    ) -> Workflow:
        """Idempotent under `request_id`. `actor`: the id of the key for which it acts.

        Raises InvalidArgument that names every fault of the plan, AlreadyExists when the request id was used for
        another plan, and what `Runner.check` raises.
        """
        check_plan(plan)
        request = Request.of(request_id, plan)
        if not validate_only and (existing := await self._store.find(request)):
            return existing
        model = await self._runner.check(plan, actor)
        number = await self._store.turns(model) + 1 if plan.kind is Kind.TURN else 0
        made = Workflow(new_id("flow"), plan, actor, self._clock.now(), model, number, schedule_id)
        if validate_only:
            return made
        stored = await self._store.create(made, request)
        await enqueue(self._queue, stored.id)
        return stored

    async def get(self, workflow_id: str) -> Workflow:
        """Raises NotFound."""
        return await self._store.get(workflow_id)

    async def page(self, page_size: int, page_token: str) -> Page[Workflow]:
        """Newest first. Raises InvalidArgument for a page token that no list returned."""
        return await fetch_page(self._store.page, lambda workflow: workflow.id, str, page_size, page_token)

    async def cancel(self, workflow_id: str) -> Workflow:
        """With what it has under way, for the key that asks; for somebody without one, for the key that created it.
        Idempotent. Raises NotFound, FailedPrecondition when it has ended otherwise."""
        now = self._clock.now()
        workflow = await self._store.change(workflow_id, lambda workflow: workflow.cancel(now))
        actor = workflow.actor if caller().id.startswith(PERSON) else caller().id
        with surviving("abandon", workflow_id=workflow_id):
            await self._runner.abandon(workflow.record, actor)
        return workflow

    async def resume(self, workflow_id: str) -> Workflow:
        """Idempotent. Raises NotFound, FailedPrecondition for one that was decided."""
        workflow = await self._store.change(workflow_id, Workflow.resume)
        if not workflow.state.ended:
            await enqueue(self._queue, workflow.id)
        return workflow

    async def watch(self, workflow_id: str, after_line: int) -> AsyncGenerator[Watched]:
        """It now, then at each change, with new lines, until it has ended. Raises NotFound."""
        seen = after_line

        async def look() -> Watched:
            workflow = await self._store.get(workflow_id)
            return Watched(workflow, await self._store.lines(workflow_id, seen))

        async for one in watch(
            look,
            lambda one: one.workflow.state.ended and not one.lines,
            key=lambda one: (one.workflow.state, one.workflow.attempts, one.lines[-1].number if one.lines else seen),
            interval=self._watch_poll,
        ):
            seen = one.lines[-1].number if one.lines else seen
            yield one


def check_plan(plan: Plan) -> None:
    """Raises InvalidArgument that names every field at fault."""
    faults = Faults()
    faults.required("plan.name", plan.name)
    faults.length("plan.name", plan.name, MAX_NAME)
    faults.required("plan.text", plan.text)
    size = len(plan.text.encode(errors="replace"))
    faults.unless(size <= MAX_TEXT, "plan.text", f"must have at most {MAX_TEXT} bytes, not {size}")
    faults.raise_if_any()
