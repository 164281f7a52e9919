"""Queue in: what a worker does with a workflow."""

from collections.abc import Sequence
from datetime import timedelta

from gateway_service.domain.workflows.ports import Runner, WorkflowStore
from gateway_service.domain.workflows.workflow import Workflow
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import Waiting
from ratchet_kit.worker import HeldWork

log = get_logger(__name__)


class WorkflowWork(HeldWork[Workflow]):
    """`ratchet_kit.work.Work` on workflows."""

    kind = "workflow"

    def __init__(self, owner: str, store: WorkflowStore, runner: Runner, clock: Clock, lease: timedelta) -> None:
        """`owner`: no other living worker has this name. `lease`: how long a workflow stays with one that died."""
        super().__init__(store.change, owner, clock, lease)
        self._store = store
        self._runner = runner

    async def do(self, claim: Workflow) -> None:
        ending = await self._runner.work(claim, self.owner)
        now = self.clock.now()
        await self._store.change(claim.id, lambda present: present.end(self.owner, ending, now))
        log.info("workflow.ended", outcome=ending.outcome)

    async def waiting(self) -> Sequence[Waiting]:
        now = self.clock.now()
        return [Waiting(one.id, one.create_time) for one in await self._store.under_way() if one.hold.is_free(now)]
