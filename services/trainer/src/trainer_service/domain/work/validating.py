"""Scores checkpoints by evaluations, while their runs go on: no step waits for one, only the end of the run.

A run has AT_ONCE evaluations under way at most. Where they take longer than the checkpoints come, the newest that waits
takes the turn of those before it, which get no score. All that is known is in RunStore, and each export has one request
id: a restart, or a second service, evaluates nothing twice. An export that cannot become the best is deleted.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition, NotFound, RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from ratchet_kit.work import Priority, Queue, enqueue, surviving
from trainer_service.domain.inputs.ports import ModelFolders
from trainer_service.domain.run.checkpoint import Checkpoint, superseded
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import Run
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.spec.spec import Keep
from trainer_service.domain.work.needs import Needs
from trainer_service.domain.work.ports import Evaluations, Measured

log = get_logger(__name__)

AT_ONCE = 2
"""Evaluations of a run: one generates while the other loads, or is judged to its end."""
TOO_SLOW = (
    "evaluations take longer than checkpoints come: some checkpoints get no score; raise validate_every, or lower"
    " validate.samples"
)


class Validating:
    def __init__(
        self,
        store: RunStore,
        evaluations: Evaluations,
        folders: ModelFolders,
        needs: Needs,
        queue: Queue,
        updates: RunUpdates,
        clock: Clock,
    ) -> None:
        self._store = store
        self._evaluations = evaluations
        self._folders = folders
        self._needs = needs
        self._queue = queue
        self._updates = updates
        self._clock = clock

    async def look(self) -> None:
        """At all runs that are under way. Raises Unavailable."""
        for run in await self._store.unfinished():
            with surviving("validate", run_id=run.id), projects.of_owner(run.id):
                await (self.advance(run) if run.spec.validate else self.tidy(run))

    async def awaits(self, run: Run) -> bool:
        """True while a checkpoint of the run is to get a score. Raises Unavailable."""
        return any(one.awaits_score for one in await self._checkpoints(run))

    async def advance(self, run: Run) -> None:
        """Takes the scores that have come, creates the evaluations that are due, deletes what is not needed."""
        open_ones = [one for one in await self._checkpoints(run) if one.awaits_score]
        waits = [await self._score(run, one) for one in open_ones if one.evaluation_id]
        waiting = [one for one in open_ones if not one.evaluation_id]
        free = AT_ONCE - len([*filter(None, waits)])
        for one in waiting[: -max(free, 1)]:
            await self._leave_unscored(run, one, "a newer checkpoint took its turn", TOO_SLOW)
        next_ones = waiting[-max(free, 1) :]
        waits += [await self._begin(run, one) if free > 0 else f"step {one.step}: not begun" for one in next_ones]
        await self.tidy(run)
        if (await self._store.get(run.id)).trained_time:
            await self._wait(run, "; ".join(filter(None, waits)))

    async def abandon(self, run: Run) -> None:
        """Ends the evaluations of a run that is over. Raises Unavailable."""
        for one in await self._checkpoints(run):
            if one.evaluation_id and one.awaits_score:
                await self._evaluations.cancel(one.evaluation_id)

    async def tidy(self, run: Run) -> None:
        """Deletes the exports that the run does not keep. Raises Unavailable."""
        keep = run.spec.keep or (Keep(last=0) if run.spec.validate else None)
        if keep is None:
            return
        # Whatever is scored later, what is not among the best of these never is.
        if not (old := superseded(await self._checkpoints(run), keep)):
            return
        needed = await self._needs.exports()
        for one in old:
            if (run.id, one.step) not in needed and not (run.spec.validate and one.awaits_score):
                await self._folders.remove_export(run.id, one.uri)
                await self._change(run, one, partial(Checkpoint.deleted, uri=one.uri))

    async def _score(self, run: Run, one: Checkpoint) -> str:
        """How far its evaluation is; empty once that is over."""
        try:
            measured = await self._evaluations.get(one.evaluation_id)
        except NotFound:
            measured = Measured(one.evaluation_id, is_over=True, failure="it was deleted")
        except OUTSIDE as error:
            return f"step {one.step}: {error.message}"
        if not measured.is_over:
            return f"step {one.step}: {one.evaluation_id}, {measured.progress}"
        if measured.score is None:
            await self._leave_unscored(run, one, f"evaluation {one.evaluation_id} has no score: {measured.failure}")
        elif measured.policy_id != one.policy_id:
            other = f"evaluation {one.evaluation_id} measured other weights: {measured.policy_id}"
            await self._leave_unscored(run, one, other)
        else:
            await self._change(run, one, partial(Checkpoint.scored, score=measured.score, uri=one.uri))
            log.info("checkpoint.scored", run_id=run.id, step=one.step, score=measured.score.value)
        return ""

    async def _begin(self, run: Run, one: Checkpoint) -> str:
        """The same, of one that is created now."""
        request_id = f"{run.id}-{one.uri.rstrip('/').rpartition('/')[2]}"
        try:
            measured = await self._evaluations.create(request_id, run.spec, one.uri)
        except OUTSIDE as error:
            return f"step {one.step}: {error.message}"
        except RatchetError as error:
            await self._leave_unscored(run, one, f"its evaluation is refused: {error.message}")
            return ""
        try:
            await self._change(run, one, partial(Checkpoint.measured_by, evaluation_id=measured.id, uri=one.uri))
        except (FailedPrecondition, NotFound):  # it was made again, or passed over, meanwhile
            await self._evaluations.cancel(measured.id)
            raise
        return f"step {one.step}: {measured.id}, {measured.progress}"

    async def _leave_unscored(self, run: Run, one: Checkpoint, reason: str, notice: str = "") -> None:
        """`notice`: said once for the run, in place of the reason."""
        said = notice or f"the checkpoint of step {one.step} has no score: {reason}"
        await self._change(run, one, partial(Checkpoint.left_unscored, reason=reason, uri=one.uri), said)
        log.warning("checkpoint.unscored", run_id=run.id, step=one.step, reason=reason)

    async def _change(
        self, run: Run, one: Checkpoint, change: Callable[[Checkpoint], Checkpoint], notice: str = ""
    ) -> None:
        def then(run: Run, checkpoints: Sequence[Checkpoint]) -> Run:
            chosen = run.chosen(checkpoints, self._clock.now())
            is_new = notice and not run.state.is_final and notice not in [one.message for one in run.notices]
            return chosen.noticed(notice, self._clock.now()) if is_new else chosen

        await self._store.change_checkpoint(run.id, one.step, change, then)
        self._updates.announce(run.id)

    async def _wait(self, run: Run, waits_for: str) -> None:
        before = await self._store.get(run.id)
        after = await self._store.change(run.id, lambda run: run.awaits_scores(waits_for, self._clock.now()))
        if after != before:
            self._updates.announce(run.id)
            if not after.waits_for:
                await enqueue(self._queue, run.id, Priority(run.spec.priority))  # its worker has left it meanwhile

    async def _checkpoints(self, run: Run) -> Sequence[Checkpoint]:
        return await self._store.checkpoints(run.id, run.spec.steps + 1, -1)
