"""The evaluations that there are: create, look at, watch, cancel, compare."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial

from eval_service.domain.comparison import Comparison, check_comparable, compare
from eval_service.domain.evaluation import Evaluation, Progress, Sample
from eval_service.domain.ports import EvaluationStore, ModelSource, ProblemSource, Queue, SampleKey
from eval_service.domain.spec import EvaluationSpec
from ratchet_kit.errors import Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
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
        queue: Queue,
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
        self._watch_interval = watch_interval.total_seconds()

    async def create(self, spec: EvaluationSpec, request_id: str) -> Report:
        """Stores and queues it. Raises InvalidArgument with every fault, NotFound for a model that is not there."""
        spec.check()
        assert spec.model is not None
        request = Request(request_id or new_id("req"), _fingerprint(spec))
        if existing := await self._store.find(request):
            return await self._report(existing)
        await self._problems.check(spec.problems)
        model = await self._models.resolve(spec.model)
        wanted = Evaluation(new_id("eval"), spec.with_digest(""), model, self._clock.now())
        evaluation = await self._store.create(wanted, request)
        try:
            await self._queue.publish(evaluation.id)
        except Unavailable as error:
            # It is stored, so it is created: the worker puts it on the queue once that can be reached.
            log.warning("evaluation.not_queued_yet", evaluation=evaluation.id, error=error.message)
        log.info("evaluation.created", evaluation=evaluation.id, problems=spec.problems.name, source=model.source)
        return await self._report(evaluation)

    async def get(self, id: str) -> Report:
        return await self._report(await self._store.get(id))

    async def list(self, page_size: int, page_token: str) -> Page[Report]:
        page = await fetch_page(self._store.list, lambda evaluation: evaluation.id, str, page_size, page_token)
        progress = await self._store.progress([evaluation.id for evaluation in page.items])
        return page.map(lambda evaluation: Report(evaluation, progress[evaluation.id]))

    async def cancel(self, id: str) -> Report:
        """Raises NotFound, FailedPrecondition when it has succeeded or failed."""
        now = self._clock.now()
        return await self._report(await self._store.change(id, lambda evaluation: evaluation.cancel(now)))

    async def watch(self, id: str) -> AsyncIterator[Report]:
        """The report as it is, then each that differs; ends after the one that says that the evaluation ended."""
        last = None
        while True:
            report = await self.get(id)
            seen = (report.evaluation.state, report.evaluation.policy_id, report.progress)
            if seen != last:
                last = seen
                yield report
            if report.evaluation.state.ended:
                return
            await asyncio.sleep(self._watch_interval)

    async def list_samples(self, id: str, page_size: int, page_token: str) -> Page[Sample]:
        """By problem and index. Raises NotFound."""
        await self._store.get(id)

        async def fetch(limit: int, after: list[str | int] | None) -> list[Sample]:
            key = None if after is None else SampleKey(str(after[0]), int(after[1]))
            return list(await self._store.list_samples(id, limit, key))

        return await fetch_page(fetch, lambda sample: [sample.problem_id, sample.index], list, page_size, page_token)

    async def compare(self, baseline_id: str, candidate_id: str) -> Comparison:
        """Raises NotFound, FailedPrecondition when they cannot be compared."""
        baseline, candidate = await self._store.get(baseline_id), await self._store.get(candidate_id)
        check_comparable(baseline, candidate)
        tallies = [await self._store.tallies(id) for id in (baseline_id, candidate_id)]
        # The permutations take a moment of processor time.
        return await asyncio.to_thread(partial(compare, baseline, candidate, *tallies))

    async def _report(self, evaluation: Evaluation) -> Report:
        return Report(evaluation, (await self._store.progress([evaluation.id]))[evaluation.id])


def _fingerprint(spec: EvaluationSpec) -> str:
    content = [type(spec.model).__name__, asdict(spec)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
