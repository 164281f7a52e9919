"""EvaluationStore in memory, for tests: the same promises, for one process."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import fmean

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.measurement import Measurement, measurement_of
from eval_service.domain.ports import EvaluationFilter, SampleFilter, Sound
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, EpisodeMeans, Facts
from ratchet_kit.errors import Aborted, NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.projects import is_seen


class MemoryEvaluationStore:
    def __init__(self) -> None:
        self._evaluations: dict[str, Evaluation] = {}
        self._made: Made[str] = Made("evaluation")
        self._problems: dict[str, dict[ProblemKey, Facts]] = defaultdict(dict)
        self._samples: dict[str, dict[SampleKey, Sample]] = defaultdict(dict)
        self._sound: dict[str, Sound] = {}
        self._deleted: dict[str, tuple[Measurement, Sequence[Facts]]] = {}
        self._without_texts: set[str] = set()

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._evaluations[evaluation.id] = evaluation
        self._made.add(request, evaluation.id)
        return evaluation

    async def find(self, request: Request) -> Evaluation | None:
        id = self._made.find(request)
        return None if id is None else self._evaluations[id]

    async def get(self, id: str) -> Evaluation:
        if id not in self._evaluations:
            raise NotFound(f"there is no evaluation {id!r}")
        return self._evaluations[id]

    async def page(
        self, limit: int, after: str | None, only: EvaluationFilter = EvaluationFilter()
    ) -> Sequence[Evaluation]:
        def fits(one: Evaluation) -> bool:
            model = not only.model or one.spec.model_name == only.model
            named = only.name.lower() in one.spec.display_name.lower()
            timely = only.after_time is None or one.create_time >= only.after_time
            stated = only.state in (None, one.state)
            return model and named and timely and stated and (not only.problems or only.problems in one.spec.names)

        ids = sorted((id for id in self._evaluations if after is None or id < after), reverse=True)
        return [self._evaluations[id] for id in ids if fits(self._evaluations[id])][:limit]

    async def under_way(self) -> Sequence[Evaluation]:
        evaluations = [self._evaluations[id] for id in sorted(self._evaluations)]
        return [one for one in evaluations if not one.state.ended]

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        self._evaluations[id] = change(await self.get(id))
        return self._evaluations[id]

    async def delete(self, id: str) -> None:
        present = self._evaluations.pop(id, None)
        measured = measurement_of(present, total=self._total(id)) if present else None
        if measured:
            self._deleted[id] = (measured.kept(), self._seen(id))
        self._samples.pop(id, None)
        self._problems.pop(id, None)
        self._made.remove({id})

    async def forget_texts(self, before: datetime) -> int:
        old = [one.id for one in self._evaluations.values() if one.end_time and one.end_time < before]
        old = [id for id in old if id not in self._without_texts]
        for id in old:
            self._samples[id] = {key: sample.without_texts() for key, sample in self._samples[id].items()}
        self._without_texts |= set(old)
        return len(old)

    async def add_problems(self, id: str, facts: Sequence[Facts]) -> None:
        self._check(id)
        for one in facts:
            self._problems[id].setdefault(one.key, one)

    def _check(self, id: str) -> None:
        if id not in self._evaluations:
            raise Aborted(f"evaluation {id!r} was deleted meanwhile")

    async def exclude(self, id: str, reasons: Mapping[ProblemKey, str]) -> None:
        for key, reason in reasons.items():
            self._problems[id][key] = replace(self._problems[id][key], excluded=reason)

    async def problems(self, ids: Sequence[str]) -> Mapping[str, Sequence[Facts]]:
        return {id: list(self._problems[id].values()) for id in ids}

    async def measurements(self, id: str) -> Sequence[Measurement]:
        wanted = {one.fingerprint: one.tests for one in self._problems[id].values() if not one.excluded}
        live = {
            one.id: (measured if one.id not in self._without_texts else measured.kept(), self._open(one))
            for one in self._evaluations.values()
            if (measured := measurement_of(one, total=self._total(one.id)))
        }
        found = []
        for measured, facts in (live | self._deleted).values():
            prints, tests = {one.fingerprint for one in facts}, {one.tests for one in facts} - {""}
            number = sum(known in prints or kept in tests for known, kept in wanted.items())
            found += [replace(measured, problems=number)] if number else []
        return found

    def _total(self, id: str) -> int:
        return len({one.fingerprint for one in self._problems[id].values() if not one.excluded})

    def _open(self, evaluation: Evaluation) -> Sequence[Facts]:
        if evaluation.state in (State.RUNNING, State.SUCCEEDED):
            return [one for one in self._problems[evaluation.id].values() if not one.excluded]
        return self._seen(evaluation.id)

    def _seen(self, id: str) -> Sequence[Facts]:
        judged = {sample.key.problem for sample in self._samples[id].values() if sample.judgement}
        return [one for key, one in self._problems[id].items() if key in judged and not one.excluded]

    async def sound(self, digests: Sequence[str]) -> Mapping[str, Sound]:
        return {digest: self._sound[digest] for digest in digests if digest in self._sound}

    async def add_sound(self, found: Mapping[str, Sound]) -> None:
        self._sound = {**found, **self._sound}

    async def add_samples(self, id: str, samples: Sequence[Sample]) -> None:
        self._check(id)
        for sample in samples:
            self._samples[id].setdefault(sample.key, sample)

    async def judge_samples(self, id: str, samples: Sequence[Sample]) -> None:
        for sample in samples:
            present = self._samples[id].get(sample.key)
            if present and not present.judgement and sample.judgement:
                changed = ("completion", "request", "tokens", "truncated", "turns", "judgement")
                changes = {name: getattr(sample, name) for name in changed}
                self._samples[id][sample.key] = replace(present, **changes)

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        return frozenset(self._samples[id])

    async def unjudged(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        return [sample for sample in self._after(id, after) if not sample.judgement][:limit]

    async def sample_page(
        self, id: str, limit: int, after: SampleKey | None, only: SampleFilter = SampleFilter()
    ) -> Sequence[Sample]:
        def fits(sample: Sample) -> bool:
            return (
                sample.judgement is not None
                and only.benchmark in ("", sample.key.benchmark)
                and only.problem_id in ("", sample.key.problem_id)
                and only.verdict in ("", sample.judgement.verdict)
                and only.failure in ("", sample.judgement.failure)
            )

        return [sample for sample in self._after(id, after) if fits(sample)][:limit]

    async def sample(self, id: str, key: SampleKey) -> Sample:
        found = self._samples[id].get(key)
        if not found or not found.judgement:
            raise NotFound(f"evaluation {id!r} has no sample {key}")
        return found

    async def means(self, id: str) -> EpisodeMeans | None:
        all = self._samples[id].values()
        if not all:
            return None
        times = [one.generation_time.total_seconds() for one in all if one.generation_time is not None]
        turns, errors, tokens = (
            fmean(getattr(one, name) for one in all) for name in ("turns", "tool_errors", "tokens")
        )
        return EpisodeMeans(turns, errors, tokens, fmean(times) if times else 0.0)

    def _after(self, id: str, after: SampleKey | None) -> list[Sample]:
        keys = sorted(self._samples[id])
        return [replace(self._samples[id][key], record=b"") for key in keys if after is None or key > after]

    async def drawn(self, requests: Sequence[str]) -> Mapping[str, Sample]:
        wanted = frozenset(requests)
        seen = [samples for id, samples in self._samples.items() if is_seen(id)]
        every = (sample for samples in seen for sample in samples.values())
        return {sample.request: sample for sample in every if sample.request and sample.request in wanted}

    async def counts(self, ids: Sequence[str]) -> Mapping[str, Sequence[Count]]:
        return {id: self._counts(id) for id in ids}

    async def tokens(self, ids: Sequence[str]) -> Mapping[str, int]:
        return {id: sum(sample.tokens for sample in self._samples[id].values()) for id in ids}

    def _counts(self, id: str) -> list[Count]:
        found: Counter[Count] = Counter()
        for sample in self._samples[id].values():
            key, judged = ProblemKey(sample.key.benchmark, sample.key.problem_id), sample.judgement
            verdict, failure, forgeable = (
                (judged.verdict, judged.failure, judged.forgeable) if judged else ("", None, False)
            )
            found[Count(key, verdict, failure, forgeable, 0)] += 1
        return [replace(count, samples=number) for count, number in found.items()]
