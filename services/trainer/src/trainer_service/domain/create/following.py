"""Newer versions of a run's problems, which it draws from as they become READY.

What a step draws from is settled once, before its first prompt is drawn: an attempt that repeats the step draws the
same."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from ratchet_kit.errors import RatchetError
from ratchet_kit.faults import Faults
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from trainer_service.domain.create import defaults, validation
from trainer_service.domain.inputs.ports import ProblemSets
from trainer_service.domain.inputs.references import References, notices
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import Drawn, Run, RunId
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import ProblemSetRef

log = get_logger(__name__)

_KEPT = 1000


class Following:
    def __init__(
        self,
        store: RunStore,
        problems: ProblemSets,
        references: References,
        limits: Limits,
        updates: RunUpdates,
        clock: Clock,
    ) -> None:
        self._store = store
        self._problems = problems
        self._references = references
        self._limits = limits
        self._updates = updates
        self._clock = clock
        self._left_out = dict[tuple[RunId, str], None]()
        """Versions at fault, so that each is examined and noticed once."""

    async def drawn(self, id: RunId, attempt: int, step: int) -> Sequence[Drawn]:
        """The newer versions that this step and those before it are drawn from, oldest first. None is found while the
        registry is away.

        Raises NotFound; FailedPrecondition for a stale attempt or a run that is over.
        """
        run = await self._store.get(id)
        run.check_drawing(attempt)
        if step > run.drawn_step:
            newer = await self._newer(run)
            run = await self._store.change(id, lambda run: run.draws(attempt, step, newer, self._clock.now()))
            self._updates.announce(id)
        return run.drawn_by(step)

    async def _newer(self, run: Run) -> ProblemSetRef | None:
        try:
            there = await self._problems.newer(run.newest_problems)
            if there is None or (run.id, there.name) in self._left_out:
                return None
            return await self._examined(run, there)
        except RatchetError as error:
            log.warning("problems.not_followed", run_id=run.id, reason=error.message)
            return None

    async def _examined(self, run: Run, there: ProblemSetRef) -> ProblemSetRef | None:
        """With its digest; None for one that no run could be made with, which is noticed."""
        faults = Faults()
        spec = replace(run.spec, problems=there)
        found = await self._references.find(spec, faults)
        spec = defaults.complete(spec, found, self._limits)
        validation.check(spec, found, self._limits, faults)
        if not faults:
            validation.check_trials(await self._references.trials(spec, found), faults)
        if faults:
            self._left_out = dict([*self._left_out.items(), ((run.id, there.name), None)][-_KEPT:])
            reason = "; ".join(f"{one.field} {one.description}" for one in faults.violations)
            said = [f"{there.name} is not drawn from: {reason}"]
        else:
            said = notices(spec, found)
            await self._references.use(spec, run.id)
        if said:
            await self._store.change(run.id, partial(self._noticed, said))
        return None if faults else spec.problems

    def _noticed(self, said: Sequence[str], run: Run) -> Run:
        return reduce(lambda run, notice: run.noticed(notice, self._clock.now()), said, run)
