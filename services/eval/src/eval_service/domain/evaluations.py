"""The evaluations that there are: create, add samples, look at, watch, cancel, delete, compare, plan."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from eval_service.domain.clusters import Clusters
from eval_service.domain.comparison import (
    Comparisons,
    Plan,
    Planned,
    Question,
    check_comparable,
    check_finished,
    compare,
    plan,
)
from eval_service.domain.evaluation import Evaluation
from eval_service.domain.forecast import Forecasts, short_of
from eval_service.domain.measurement import Measurement
from eval_service.domain.ports import (
    EvaluationFilter,
    EvaluationStore,
    Events,
    ModelSource,
    ProblemSet,
    ProblemSource,
    RewardSource,
    SampleFilter,
)
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, Facts, Score, score, tallies
from eval_service.domain.sets import Imported, Sets, Shown, examples_of, looked_at, samples_of
from eval_service.domain.spec import EvaluationSpec, Kind, ProblemSetRef, RewardJudge
from ratchet_kit import work
from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound, RatchetError, invalid
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import RewardRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.projects import is_seen
from ratchet_kit.statistics import too_few
from ratchet_kit.times import Clock
from ratchet_kit.usage import Prices
from ratchet_problems.examples import Examples
from ratchet_problems.templates import Template

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """An evaluation and how far it is."""

    evaluation: Evaluation
    score: Score
    """Of the samples that are judged so far."""
    samples_total: int = 0
    """0 until the problems were counted."""
    expected_end_time: datetime | None = None
    """At the pace since its worker began."""
    waits_for: str = ""
    """Why no worker has it, and behind what."""


class Evaluations:
    def __init__(
        self,
        store: EvaluationStore,
        queue: work.Queue,
        problems: ProblemSource,
        models: ModelSource,
        rewards: RewardSource,
        events: Events,
        clock: Clock,
        examine_template: Callable[[str], Awaitable[Template]],
        watch_interval: timedelta = timedelta(milliseconds=500),
        prices: Prices | None = None,
        tool_servers: Sequence[str] = (),
    ) -> None:
        """`tool_servers`: names of the operator's, which episodes may use."""
        self._store = store
        self._queue = queue
        self._problems = problems
        self._models = models
        self._rewards = rewards
        self._events = events
        self._clock = clock
        self._examine_template = examine_template
        self._watch_interval = watch_interval
        self._prices, self._tool_servers = prices, tool_servers
        self._forecasts = Forecasts(store, problems, prices)

    async def create(
        self,
        spec: EvaluationSpec,
        request_id: str,
        actor: str = "",
        *,
        validate_only: bool = False,
        for_gate: bool = False,
    ) -> Report:
        """Stores and queues it, unless `validate_only`. Raises InvalidArgument for a problem set that cannot be used,
        or decides no gate where the evaluation is `for_gate`; NotFound for a model or a reward that is not there,
        AlreadyExists when the request's id was used for another evaluation."""
        spec = spec.as_requested()
        if spec.budget is not None and self._prices is None:
            rule = "must be left out: the operator has set no prices (RATCHET_PRICES), so no cost is known"
            raise invalid("spec.budget", rule)
        if spec.environment is not None:
            faults = Faults()
            spec.environment.check_tool_servers(faults.under("spec.environment"), self._tool_servers)
            faults.raise_if_any("the evaluation cannot be made")
        request = Request.of(request_id, type(spec.model).__name__, spec)
        if existing := await self._store.find(request):
            return await self._report(existing)
        pinned = [replace(entry, problems=await self._problems.pin(entry.problems, spec.kind)) for entry in spec.suite]
        spec = replace(spec, suite=tuple(pinned))
        notices: list[str] = []
        for entry in spec.suite:
            said = await self._problems.check(entry.problems, spec.kind)
            notices += [f"{entry.problems.name}: {one}" for one in said]
        if for_gate:
            await self._check_decides(spec)
        notices += await self._template(spec)
        spec = replace(spec, judge=await self._judge(spec.judge), examples=await self._examples(spec.examples))
        model = await self._models.resolve(spec.model) if spec.model else None
        if model and spec.engine_model:
            model = replace(model, engine_model=spec.engine_model)
        expected = await self._forecasts.of(spec, model)
        notices += short_of(spec.budget, expected)
        now = self._clock.now()
        wanted = Evaluation("", spec, model, now, notices=tuple(notices), forecast=expected, actor=actor)
        if validate_only:
            return _report(wanted, (), (), now, ())
        wanted = replace(wanted, id=new_id("eval"))
        for used in (*(entry.problems for entry in spec.suite), *([spec.examples] if spec.examples else [])):
            await self._problems.use(used, wanted.id)
        if spec.judge:
            await self._rewards.use(RewardRef.parse(spec.judge.reward), wanted.id)
        evaluation = await self._store.create(wanted, request)
        if not evaluation.awaits_samples:
            await work.enqueue(self._queue, evaluation.id)
        source = model.source if model else "imported samples"
        log.info("evaluation.created", evaluation_id=evaluation.id, problems=",".join(spec.names), source=source)
        return await self._report(evaluation)

    async def _check_decides(self, spec: EvaluationSpec) -> None:
        faults = Faults()
        for place, entry in enumerate(spec.suite):
            loaded = await self._problems.load_if_ready(entry.problems, spec.kind)
            if loaded and (fault := too_few(Clusters([one.structure for one in loaded.problems]).count)):
                faults.add(f"spec.suite[{place}].problems" if len(spec.suite) > 1 else "spec.problems", fault)
        faults.raise_if_any("no gate can decide by the evaluation")

    async def _template(self, spec: EvaluationSpec) -> Sequence[str]:
        """Notices. Raises InvalidArgument for a chat template that puts no problem to a model."""
        if not spec.chat_template:
            return ()
        its = await self._examine_template(spec.chat_template)
        fault = its.fault or (its.system_fault if spec.system else "")
        if fault:
            raise invalid("spec.chat_template", f"must put a problem to a model: it {fault}")
        changes = (f"its chat template {its.changes}",) if its.changes else ()
        return "measured in a chat template of its own; a version is served in the version's", *changes

    async def _judge(self, wanted: RewardJudge | None) -> RewardJudge | None:
        """With the number and the source of its reward."""
        if wanted is None:
            return None
        found = await self._rewards.find(RewardRef.parse(wanted.reward))
        return replace(wanted, reward=str(found.ref), program=found.program)

    async def _examples(self, wanted: ProblemSetRef | None) -> ProblemSetRef | None:
        """Pinned. Where the set takes preparing, its worker sees whether it has enough of them."""
        if wanted is None:
            return None
        try:
            pinned = await self._problems.pin(wanted, Kind.UNTESTED)
            await self._problems.check(looked_at(pinned), Kind.UNTESTED)
            if first := await self._problems.load_if_ready(looked_at(pinned), Kind.UNTESTED):
                examples_of(pinned, first)
        except InvalidArgument as error:
            raise InvalidArgument(error.message, [FieldViolation("spec.examples.name", error.message)]) from error
        return replace(pinned, digest=first.digest if first else "")

    async def get(self, id: str) -> Report:
        """Raises NotFound."""
        return await self._report(await self._store.get(id))

    async def page(self, size: int, token: str, only: EvaluationFilter = EvaluationFilter()) -> Page[Report]:
        """Newest first."""

        async def fetch(limit: int, after: str | None) -> Sequence[Evaluation]:
            return await self._store.page(limit, after, only)

        page = await fetch_page(fetch, lambda evaluation: evaluation.id, str, size, token)
        return Page(await self._readable_reports(page.items), page.next_page_token)

    async def add(self, id: str, imported: Sequence[Imported]) -> Report:
        """Adds samples that were made elsewhere; once all are here, they are judged. Raises NotFound, InvalidArgument
        for a problem that is not there, FailedPrecondition for an evaluation that generates, that has ended without
        all of them, or that said there are fewer."""
        evaluation = await self._store.get(id)
        evaluation.check_takes_samples()
        samples = samples_of(evaluation.spec, imported)
        await self._check_problems(evaluation, [sample.key for sample in samples])
        there = await self._store.sample_keys(id)
        if len(there | {sample.key for sample in samples}) > evaluation.spec.imported_samples:
            raise FailedPrecondition(f"evaluation {id} takes {evaluation.spec.imported_samples} samples")
        await self._store.add_samples(id, samples)
        here = sum(count.samples for count in (await self._store.counts([id]))[id])
        changed = await self._store.change(id, lambda present: present.add(here, self._clock.now()))
        if evaluation.awaits_samples and not changed.awaits_samples:
            await work.enqueue(self._queue, id)
        return await self._report(changed)

    async def _check_problems(self, evaluation: Evaluation, keys: Sequence[SampleKey]) -> None:
        spec = evaluation.spec
        sets = [await self._problems.load_if_ready(entry.problems, spec.kind) for entry in spec.suite]
        ready = [one for one in sets if one]
        if len(ready) == len(sets):  # else the worker does so, once it has prepared them
            Sets(evaluation.spec, ready).check(keys)

    async def cancel(self, id: str) -> Report:
        """Raises NotFound, FailedPrecondition when it has succeeded or failed."""
        now = self._clock.now()
        cancelled = await self._store.change(id, lambda evaluation: evaluation.cancel(now))
        if cancelled.end_time == now:  # and not cancelled before
            await self._events.ended(cancelled)
        return await self._report(cancelled)

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
            key=lambda report: (
                *(report.evaluation.state, report.evaluation.policy_id, report.evaluation.references),
                *(report.score, report.waits_for),
            ),
            interval=self._watch_interval,
        )

    async def sample_page(self, id: str, size: int, token: str, only: SampleFilter = SampleFilter()) -> Page[Sample]:
        """By problem and index. Raises NotFound."""
        await self._store.get(id)

        async def fetch(limit: int, after: list[Any] | None) -> list[Sample]:
            key = None if after is None else SampleKey(*after)
            return list(await self._store.sample_page(id, limit, key, only))

        return await fetch_page(fetch, lambda sample: list(astuple(sample.key)), (str, str, int), size, token)

    async def episode(self, id: str, benchmark: str, problem_id: str, index: int) -> Sample:
        """With its record. Raises NotFound; FailedPrecondition where none is kept."""
        spec = (await self._store.get(id)).spec
        sample = await self._store.sample(id, SampleKey(benchmark or spec.names[0], problem_id, index))
        if spec.kind is not Kind.FOLDERS:
            raise FailedPrecondition(f"evaluation {id} has no episodes of task folders: look at its samples instead")
        if not sample.record:
            raise FailedPrecondition(
                f"the record of {problem_id}:{index} is not kept: records go with the texts of old evaluations "
                "(RATCHET_EVAL_KEEP_TEXTS); evaluate again for new ones"
            )
        return sample

    async def problem(self, id: str, benchmark: str, problem_id: str) -> Shown:
        """One of those that it measures. Raises NotFound; FailedPrecondition where its set is not here any more, or is
        another by now."""
        spec = (await self._store.get(id)).spec
        name = benchmark or spec.names[0]
        entry = next((one for one in spec.suite if one.problems.name == name), None)
        if entry is None:
            raise NotFound(f"evaluation {id} does not measure {name!r}")
        loaded = await self._ready(entry.problems, spec.kind)
        examples = Examples()
        if spec.examples:
            shown = looked_at(spec.examples)
            examples = examples_of(
                spec.examples, await self._ready(replace(shown, digest=spec.examples.digest), Kind.UNTESTED)
            )
        return Sets(replace(spec, suite=(entry,)), [loaded], examples).shown(
            ProblemKey(name, problem_id), spec.prompting
        )

    async def _ready(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet:
        """The set that was measured. Raises FailedPrecondition."""
        try:
            await self._problems.pin(ref, kind)  # it may not be on this machine
            loaded = await self._problems.load_if_ready(ref, kind)
        except InvalidArgument as error:
            raise FailedPrecondition(f"the problems are not here any more: {error.message}") from error
        if loaded is None:
            raise FailedPrecondition(f"{ref.name} is not ready here: evaluate it again, and it is prepared")
        if ref.digest and loaded.digest != ref.digest:
            raise FailedPrecondition(f"{ref.name} has changed since it was measured: its problems cannot be shown")
        return loaded

    async def compare(self, baseline_id: str, candidate_id: str, question: Question = Question()) -> Comparisons:
        """Raises NotFound, FailedPrecondition when they cannot be compared."""
        baseline, candidate = await self._store.get(baseline_id), await self._store.get(candidate_id)
        check_comparable(baseline, candidate)
        ids = (baseline_id, candidate_id)
        facts, counts = await self._store.problems(ids), await self._store.counts(ids)
        before, after = (tallies(facts[id], counts[id]) for id in ids)
        # The permutations take a moment of processor time.
        return await asyncio.to_thread(compare, baseline.spec, facts[baseline_id], before, after, question)

    async def measurements(self, id: str) -> Sequence[Measurement]:
        """Of its own problems, by all evaluations that the caller sees. Raises NotFound."""
        await self._store.get(id)
        return [one for one in await self._store.measurements(id) if is_seen(one.evaluation_id)]

    async def fingerprints(self, id: str) -> Sequence[str]:
        """Fingerprints of the problems that it measures."""
        facts = (await self._store.problems([id]))[id]
        return sorted({one.fingerprint for one in facts if not one.excluded} - {""})

    async def plan(self, baseline_id: str, wanted: Plan) -> Planned:
        """Raises NotFound, FailedPrecondition when it has not succeeded."""
        baseline = await self._store.get(baseline_id)
        check_finished(baseline)
        facts, counts = await self._store.problems([baseline_id]), await self._store.counts([baseline_id])
        seen = tallies(facts[baseline_id], counts[baseline_id])
        return await asyncio.to_thread(plan, baseline.spec, seen, wanted)

    async def _report(self, evaluation: Evaluation) -> Report:
        return (await self._reports([evaluation]))[0]

    async def _readable_reports(self, evaluations: Sequence[Evaluation]) -> list[Report]:
        """Without an evaluation whose problems or counts cannot be read: it hides no other."""
        try:
            return await self._reports(evaluations)
        except RatchetError:
            raise
        except Exception:
            if len(evaluations) == 1:
                with work.surviving("report", evaluation_id=evaluations[0].id):
                    raise
                return []
        return [report for one in evaluations for report in await self._readable_reports([one])]

    async def _reports(self, evaluations: Sequence[Evaluation]) -> list[Report]:
        """What has succeeded keeps its score; of all else the samples are counted."""
        counted = [one.id for one in evaluations if not one.score]
        facts = await self._store.problems(counted) if counted else {}
        counts = await self._store.counts(counted) if counted else {}
        now = self._clock.now()
        is_ready = any(one.is_ready(now) for one in evaluations)
        under_way = await self._store.under_way() if is_ready else ()

        def reports() -> list[Report]:
            return [_report(one, facts.get(one.id, ()), counts.get(one.id, ()), now, under_way) for one in evaluations]

        # The scores of thousands of problems take a while.
        return await asyncio.to_thread(reports) if counted else reports()


def _report(
    evaluation: Evaluation,
    facts: Sequence[Facts],
    counts: Sequence[Count],
    now: datetime,
    under_way: Sequence[Evaluation],
) -> Report:
    spec = evaluation.spec
    found = evaluation.score or score(spec, facts, counts, ended=evaluation.state.ended)
    total = spec.imported_samples or found.problems_total * spec.samples_per_problem
    ends, waits_for = evaluation.expected_end_time(found.samples, total, now), evaluation.waits_for(under_way, now)
    return Report(evaluation, found, total, ends, waits_for)
