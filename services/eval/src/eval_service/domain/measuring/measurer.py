"""Measures: draws what is missing of an evaluation's samples, where they were not added, and judges them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from eval_service.domain.evaluation import Evaluation, Pace, References
from eval_service.domain.measuring import examine
from eval_service.domain.measuring.judge import Judging
from eval_service.domain.measuring.patience import WORTH_A_RETRY, Deadlines, OutOfPatience, Patience, PatientEnvironment
from eval_service.domain.measuring.sampler import Drawing, Lost, Wanted
from eval_service.domain.parallel import each, parts
from eval_service.domain.ports import EvaluationStore, LoadedPolicy, Meter, PolicyHost, ProblemSource
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, Facts, Score, check_complete, score, tallies
from eval_service.domain.sets import Sets
from eval_service.domain.spec import Form
from ratchet_environments import Environment, EnvironmentSpec
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

PAGE = 500
"""Samples that are read together."""


class Measurer:
    def __init__(
        self,
        store: EvaluationStore,
        problems: ProblemSource,
        host: PolicyHost,
        environments: Callable[[EnvironmentSpec | None], Environment],
        meter: Meter,
        clock: Clock,
        concurrency: int = 48,
        judging: int = 256,
        deadlines: Deadlines = Deadlines(),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        moment: float = 0.05,
    ) -> None:
        """`environments`: what judges, by a spec; without one, an answer by itself. `concurrency`: samples
        that are drawn together, so that the engine has batches to decode. `judging`: samples that are judged together;
        where as many wait for their judgement, drawing waits. `moment`: seconds in which samples go to the store
        together."""
        self._store = store
        self._problems = problems
        self._host = host
        self._environments = environments
        self._meter = meter
        self._clock = clock
        self._concurrency = concurrency
        self._judging = judging
        self._deadlines = deadlines
        self._sleep = sleep
        self._moment = moment

    async def run(self, evaluation: Evaluation, owner: str) -> Score:
        """The score of an evaluation that `owner` holds, once all its samples are judged.

        Resumable: what is stored already is neither drawn nor judged again. Raises a RatchetError, whose text is the
        reason, when the evaluation cannot be made: a fault of the platform never counts as a wrong answer.
        """
        patience = Patience(self._deadlines, self._meter, self._clock, self._sleep)
        suite = evaluation.spec.suite
        loaded = [await patience.insist(partial(self._problems.load, entry.problems)) for entry in suite]
        sets = Sets(evaluation.spec, loaded)
        patience.made()
        evaluation = await self._store.change(evaluation.id, lambda now: now.load_problems(owner, sets.loaded))
        await self._store.add_problems(evaluation.id, sets.facts())
        environment = PatientEnvironment(self._environments(None), patience)
        played = PatientEnvironment(self._environments(evaluation.spec.environment), patience)
        judging = Judging(evaluation.id, sets, self._store, played, self._meter, self._moment)
        if evaluation.spec.imported_samples:
            faults = await self._judge_added(evaluation, owner, sets, judging, environment)
            await self._leave_out_unsolved(evaluation, sets, faults)
        else:
            faults = await self._unsound(evaluation, owner, sets, sets.problems, environment)
            await self._leave_out(evaluation, faults)
            await self._draw_all(evaluation, owner, sets, judging, patience)
        spec, facts, counts = evaluation.spec, await self._facts(evaluation), await self._counts(evaluation)
        check_complete(spec, facts, counts)
        return await asyncio.to_thread(score, spec, facts, counts, ended=True)

    # Samples that are drawn

    async def _draw_all(
        self, evaluation: Evaluation, owner: str, sets: Sets, judging: Judging, patience: Patience
    ) -> None:
        losses = 0
        while await self._is_unfinished(evaluation, sets):
            try:
                async with AsyncExitStack() as stack:
                    policy = await self._open(evaluation, patience, stack)
                    evaluation = await self._begin(evaluation, owner, policy)
                    drawing = Drawing(evaluation, policy, sets, patience, self._clock, self._concurrency)
                    while await self._is_unfinished(evaluation, sets):
                        await self._draw(evaluation, sets, drawing, judging)
            except Lost as error:
                losses += 1
                if losses > self._deadlines.losses:
                    raise OutOfPatience(f"the policy was lost {losses} times: {error}") from error
                log.warning("evaluation.policy_lost", evaluation_id=evaluation.id, reason=str(error))

    async def _open(self, evaluation: Evaluation, patience: Patience, stack: AsyncExitStack) -> LoadedPolicy:
        deadline = self._clock.now() + self._deadlines.for_room
        assert evaluation.model is not None
        while True:
            try:
                return await stack.enter_async_context(self._host.open(evaluation.measured_model, evaluation.id))
            except WORTH_A_RETRY as error:
                if self._clock.now() >= deadline:
                    raise OutOfPatience(f"the policy could not be loaded: {error.message}") from error
                await patience.pause(error)
            finally:
                patience.made()  # waiting for room is no fault of what comes after

    async def _begin(self, evaluation: Evaluation, owner: str, policy: LoadedPolicy | None = None) -> Evaluation:
        judged = sum(count.samples for count in await self._counts(evaluation) if count.verdict)
        pace = Pace(self._clock.now(), judged)

        def change(present: Evaluation) -> Evaluation:
            if policy:
                form = Form.CHAT if policy.has_chat_template else Form.COMPLETION
                present = present.measure(owner, policy.policy_id, policy.settings_id, form)
            return present.begin(owner, pace)

        return await self._store.change(evaluation.id, change)

    async def _draw(self, evaluation: Evaluation, sets: Sets, drawing: Drawing, judging: Judging) -> None:
        """Draws and judges at once: a sample that is judged leaves its place at the engine to the next. What several
        sets ask for alike is drawn for one of them, and left to the next round for the others."""
        begun: set[str] = set()

        async def todo() -> AsyncIterator[Wanted | Sample]:
            async for sample in self._unjudged(evaluation):
                yield sample
            for keys in parts(await self._missing(evaluation, sets), PAGE):
                wanted = [drawing.wanted(key) for key in keys]
                known = await self._store.drawn([one.request for one in wanted])
                for one in wanted:
                    if one.request in known:
                        yield known[one.request].again(one.key)
                    elif one.request not in begun:
                        begun.add(one.request)
                        yield one

        async def make(item: Wanted | Sample) -> None:
            sample = await drawing.draw(item) if isinstance(item, Wanted) else item
            await judging.keep(sample)
            await judging.judge(sample, drawing)

        await each(todo(), make, self._concurrency + self._judging)

    async def _is_unfinished(self, evaluation: Evaluation, sets: Sets) -> bool:
        unjudged = await self._store.unjudged(evaluation.id, 1, None)
        return bool(unjudged or await self._missing(evaluation, sets))

    async def _missing(self, evaluation: Evaluation, sets: Sets) -> Sequence[SampleKey]:
        done = await self._store.sample_keys(evaluation.id)
        excluded = {fact.key for fact in await self._facts(evaluation) if fact.excluded}
        keys = (
            SampleKey(key.benchmark, key.problem_id, index)
            for key in sets.problems
            if key not in excluded
            for index in range(evaluation.spec.samples_per_problem)
        )
        return sorted((key for key in keys if key not in done), key=lambda key: key.problem not in sets.slow)

    async def _unjudged(
        self, evaluation: Evaluation, only: Collection[ProblemKey] | None = None
    ) -> AsyncIterator[Sample]:
        """`only`: of these problems."""
        last: SampleKey | None = None
        while page := await self._store.unjudged(evaluation.id, PAGE, last):
            for sample in page:
                if only is None or sample.key.problem in only:
                    yield sample
            last = page[-1].key

    # Samples that are added

    async def _judge_added(
        self,
        evaluation: Evaluation,
        owner: str,
        sets: Sets,
        judging: Judging,
        environment: PatientEnvironment,
    ) -> Mapping[ProblemKey, str]:
        """The problems whose reference does not pass here, or whose tests can judge no program. A problem's reference
        is tried before its first sample is judged, which is judged in the same kind."""
        keys = {count.key for count in await self._counts(evaluation)}
        sets.check(SampleKey(key.benchmark, key.problem_id, 0) for key in keys)
        faults = await self._unsound(evaluation, owner, sets, sorted(keys), environment)
        await self._begin(evaluation, owner)
        refused: dict[ProblemKey, str] = {}

        async def judge(sample: Sample) -> None:
            if sample.key.problem in refused:
                return
            try:
                await judging.judge(sample)
            except InvalidArgument as error:
                refused[sample.key.problem] = error.message

        async def slow_first() -> AsyncIterator[Sample]:
            slow = keys.intersection(sets.slow)
            for some in filter(None, (slow, keys - slow)):
                async for sample in self._unjudged(evaluation, some):
                    yield sample

        await each(slow_first(), judge, self._judging)
        return faults | refused

    async def _leave_out_unsolved(self, evaluation: Evaluation, sets: Sets, faults: Mapping[ProblemKey, str]) -> None:
        """Problems without a sample are left out. One that a sample solved can be, whatever its reference does."""
        counts = await self._counts(evaluation)
        added, found = {count.key for count in counts}, tallies(await self._facts(evaluation), counts)
        without = {key: "no sample of it was added" for key in sets.problems if key not in added}
        await self._store.exclude(evaluation.id, without)
        unsolved = {key: reason for key, reason in faults.items() if key not in found or not found[key].passed}
        await self._leave_out(evaluation, unsolved)

    # Both

    async def _unsound(
        self,
        evaluation: Evaluation,
        owner: str,
        sets: Sets,
        keys: Collection[ProblemKey],
        environment: PatientEnvironment,
    ) -> dict[ProblemKey, str]:
        async def tell(references: References) -> None:
            await self._store.change(evaluation.id, lambda now: now.try_references(owner, references))

        return await examine.unsound(sets, keys, self._store, environment, self._judging, tell)

    async def _leave_out(self, evaluation: Evaluation, faults: Mapping[ProblemKey, str]) -> None:
        """Leaves problems out whose reference does not pass here; raises FailedPrecondition where the spec does not
        allow that."""
        if faults and not evaluation.spec.exclude_unsound:
            raise examine.refusal(faults)
        await self._store.exclude(evaluation.id, faults)

    async def _facts(self, evaluation: Evaluation) -> Sequence[Facts]:
        return (await self._store.problems([evaluation.id]))[evaluation.id]

    async def _counts(self, evaluation: Evaluation) -> Sequence[Count]:
        return (await self._store.counts([evaluation.id]))[evaluation.id]
