"""Measures an evaluation, in five stages: load, examine, draw, judge, score."""

import asyncio
from datetime import timedelta

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.measuring.draw import Drawer
from eval_service.domain.measuring.examine import Examiner
from eval_service.domain.measuring.judge import Judge
from eval_service.domain.measuring.load import Loader
from eval_service.domain.measuring.score import final_score
from eval_service.domain.score import Score
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.times import Clock
from ratchet_kit.usage import Usage
from ratchet_kit.work import surviving

LOOK = timedelta(seconds=10)
"""Between two looks at the usage, which are stored."""
LOOK_AT_BUDGET = timedelta(seconds=0.5)
"""Between two looks whether a budget is spent."""


class Measurer:
    def __init__(self, loader: Loader, examiner: Examiner, drawer: Drawer, judge: Judge, clock: Clock) -> None:
        self._loader = loader
        self._examiner = examiner
        self._drawer = drawer
        self._judge = judge
        self._clock = clock

    async def run(self, evaluation: Evaluation, owner: str) -> Score:
        """The score of an evaluation that `owner` holds, once all its samples are judged.

        Resumable: what is stored already is neither drawn nor judged again. Raises a RatchetError, whose text is the
        reason, when the evaluation cannot be made: a fault of the platform never counts as a wrong answer; and
        ResourceExhausted when its budget is spent.
        """
        attempt, before = await self._loader.load(evaluation, owner), evaluation.usage
        measuring = asyncio.create_task(self._measure(attempt))
        watching = [asyncio.create_task(watch(attempt, before)) for watch in (self._keep_usage, self._spend_budget)]
        try:
            await asyncio.wait([measuring, watching[1]], return_when=asyncio.FIRST_COMPLETED)
            if not measuring.done():
                await watching[1]
            return await measuring
        finally:
            for task in (measuring, *watching):
                task.cancel()
            await asyncio.wait([measuring, *watching])
            await asyncio.shield(self._note_usage(attempt, before))

    async def _measure(self, attempt: Attempt) -> Score:
        attempt = await self._examiner.examine(attempt)
        samples = self._drawer.draw(attempt)
        attempt = await self._judge.judge(attempt, samples)
        return await final_score(attempt)

    async def _keep_usage(self, attempt: Attempt, before: Usage) -> None:
        while True:
            await asyncio.sleep(LOOK.total_seconds())
            await self._note_usage(attempt, before)

    async def _spend_budget(self, attempt: Attempt, before: Usage) -> None:
        """Raises ResourceExhausted once the budget is spent; without one it never ends."""
        budget = attempt.spec.budget
        if budget is None:
            await asyncio.Event().wait()
            return
        while True:
            with surviving("usage", evaluation_id=attempt.id):
                usage = before + await attempt.spent.until(self._clock.now())
                if (usage.cost or 0) >= budget:
                    break
            await asyncio.sleep(LOOK_AT_BUDGET.total_seconds())
        judged = sum(count.samples for count in await attempt.counts() if count.verdict)
        said = f"it has spent its budget of {budget:,g} {usage.currency} with {judged:,} samples judged, which are kept"
        raise ResourceExhausted(f"{said}; no gate decides by a part")

    async def _note_usage(self, attempt: Attempt, before: Usage) -> None:
        """Best effort: what this look misses the next one has, and another worker's evaluation is left alone."""
        with surviving("usage", evaluation_id=attempt.id):
            usage = before + await attempt.spent.until(self._clock.now())
            await attempt.store.change(attempt.id, lambda present: present.use(attempt.owner, usage))
