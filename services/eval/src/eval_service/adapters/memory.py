"""EvaluationStore in memory, for tests: the same promises, for one process."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from eval_service.domain.evaluation import Evaluation, Progress, Sample
from eval_service.domain.ports import SampleKey
from eval_service.domain.statistics import Tally
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_rewards import PASSED


class MemoryEvaluationStore:
    def __init__(self) -> None:
        self._evaluations: dict[str, Evaluation] = {}
        self._made: Made[str] = Made("evaluation")
        self._samples: dict[str, dict[SampleKey, Sample]] = {}

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._evaluations[evaluation.id] = evaluation
        self._made.add(request, evaluation.id)
        self._samples[evaluation.id] = {}
        return evaluation

    async def find(self, request: Request) -> Evaluation | None:
        id = self._made.find(request)
        return None if id is None else self._evaluations[id]

    async def get(self, id: str) -> Evaluation:
        if id not in self._evaluations:
            raise NotFound(f"there is no evaluation {id!r}")
        return self._evaluations[id]

    async def page(self, limit: int, after: str | None) -> Sequence[Evaluation]:
        ids = sorted((id for id in self._evaluations if after is None or id < after), reverse=True)
        return [self._evaluations[id] for id in ids[:limit]]

    async def waiting(self, now: datetime) -> Sequence[Evaluation]:
        evaluations = [self._evaluations[id] for id in sorted(self._evaluations)]
        return [one for one in evaluations if not one.state.ended and one.hold.is_free(now)]

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        self._evaluations[id] = change(await self.get(id))
        return self._evaluations[id]

    async def delete(self, id: str) -> None:
        self._evaluations.pop(id, None)
        self._samples.pop(id, None)
        self._made.remove({id})

    async def add_sample(self, id: str, sample: Sample) -> None:
        self._samples[id].setdefault(SampleKey(sample.problem_id, sample.index), sample)

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        return frozenset(self._samples[id])

    async def sample_page(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        samples = sorted(self._samples[id].values(), key=lambda sample: (sample.problem_id, sample.index))
        if after is not None:
            start = (after.problem_id, after.index)
            samples = [sample for sample in samples if (sample.problem_id, sample.index) > start]
        return samples[:limit]

    async def progress(self, ids: Sequence[str]) -> Mapping[str, Progress]:
        return {id: self._progress(id) for id in ids}

    def _progress(self, id: str) -> Progress:
        drawn = Counter(key.problem_id for key in self._samples[id])
        wanted = self._evaluations[id].spec.samples_per_problem
        done = sum(count >= wanted for count in drawn.values())
        forgeable = sum(sample.forgeable and sample.verdict == PASSED for sample in self._samples[id].values())
        return Progress(done, dict(Counter(sample.verdict for sample in self._samples[id].values())), forgeable)

    async def tallies(self, id: str) -> Mapping[str, Tally]:
        drawn: Counter[str] = Counter()
        passed: Counter[str] = Counter()
        for sample in self._samples[id].values():
            drawn[sample.problem_id] += 1
            passed[sample.problem_id] += sample.verdict == PASSED
        return {problem: Tally(drawn[problem], passed[problem]) for problem in drawn}
