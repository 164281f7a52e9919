"""The evaluations that there are: create, look at, watch, cancel, delete, compare."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import timedelta

from eval_service.domain.comparison import check_comparable, compare
from eval_service.domain.evaluation import Evaluation, Progress, Sample
from eval_service.domain.ports import EvaluationStore, ModelSource, ProblemSource, SampleKey
from eval_service.domain.spec import EvaluationSpec
from ratchet_kit import work
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.statistics import Comparison
from ratchet_kit.times import Clock

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """An evaluation and how far it is."""

    evaluation: Evaluation
    progress: Progress


class Evaluations:
    def __init__(
        self,
        store: EvaluationStore,
        queue: work.Queue,
        problems: ProblemSource,
        models: ModelSource,
        clock: Clock,
        watch_interval: timedelta = timedelta(milliseconds=500),
    ) -> None:
        self._store = store
        self._queue = queue
        self._problems = problems
        self._models = models
        self._clock = clock
        self._watch_interval = watch_interval

    async def create(self, spec: EvaluationSpec, request_id: str) -> Report:
        """Stores and queues it. Raises InvalidArgument for a problem set that cannot be used, NotFound for a model that
        is not there, AlreadyExists when the request's id was used for another evaluation."""
        request = Request.of(request_id, type(spec.model).__name__, asdict(spec))
        if existing := await self._store.find(request):
            return await self._report(existing)
        await self._problems.check(spec.problems)
        model = await self._models.resolve(spec.model)
        new = Evaluation(new_id("eval"), spec.with_digest(""), model, self._clock.now())
        evaluation = await self._store.create(new, request)
        await work.enqueue(self._queue, evaluation.id)
        log.info("evaluation.created", evaluation_id=evaluation.id, problems=spec.problems.name, source=model.source)
        return await self._report(evaluation)

    async def get(self, id: str) -> Report:
        """Raises NotFound."""
        return await self._report(await self._store.get(id))

    async def page(self, size: int, token: str) -> Page[Report]:
        """Newest first."""
        page = await fetch_page(self._store.page, lambda evaluation: evaluation.id, str, size, token)
        progress = await self._store.progress([evaluation.id for evaluation in page.items])
        return page.map(lambda evaluation: Report(evaluation, progress[evaluation.id]))

    async def cancel(self, id: str) -> Report:
        """Raises NotFound, FailedPrecondition when it has succeeded or failed."""
        now = self._clock.now()
        return await self._report(await self._store.change(id, lambda evaluation: evaluation.cancel(now)))

    async def delete(self, id: str) -> None:
        """With its samples. Raises NotFound, FailedPrecondition while it is under way."""
        (await self._store.get(id)).check_deletable()  # what has ended stays so
        await self._store.delete(id)
        log.info("evaluation.deleted", evaluation_id=id)

    def watch(self, id: str) -> AsyncIterator[Report]:
        """The report as it is, then each that differs, up to the one of the end. Raises NotFound."""
        return work.watch(
            lambda: self.get(id),
            lambda report: report.evaluation.state.ended,
            key=lambda report: (report.evaluation.state, report.evaluation.policy_id, report.progress),
            interval=self._watch_interval,
        )

    async def sample_page(self, id: str, size: int, token: str) -> Page[Sample]:
        """By problem and index. Raises NotFound."""
        await self._store.get(id)

        async def fetch(limit: int, after: list[str | int] | None) -> list[Sample]:
            key = None if after is None else SampleKey(str(after[0]), int(after[1]))
            return list(await self._store.sample_page(id, limit, key))

        return await fetch_page(fetch, lambda sample: [sample.problem_id, sample.index], list, size, token)

    async def compare(self, baseline_id: str, candidate_id: str) -> Comparison:
        """Raises NotFound, FailedPrecondition when they cannot be compared."""
        baseline, candidate = await self._store.get(baseline_id), await self._store.get(candidate_id)
        check_comparable(baseline, candidate)
        tallies = [await self._store.tallies(id) for id in (baseline_id, candidate_id)]
        # The permutations take a moment of processor time.
        return await asyncio.to_thread(compare, *tallies)

    async def _report(self, evaluation: Evaluation) -> Report:
        return Report(evaluation, (await self._store.progress([evaluation.id]))[evaluation.id])
