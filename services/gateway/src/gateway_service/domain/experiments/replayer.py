"""Answers the prompts of offline experiments, and concludes those that have all their answers.

An answer's record is what says that it was made, under an id that follows from prompt and variant: whoever goes on,
after a restart or in place of another gateway, makes those that are missing.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gateway_service.domain.experiments.experiment import Experiment, State, Variant
from gateway_service.domain.experiments.experiments import Experiments
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.experiments.replay import ReplayPrompt, answer_id
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.ports import CompletionLog, ExchangeStore, Grader
from gateway_service.domain.traffic.record import Arm, CompletionRecord, Unit, unit_id
from ratchet_kit.errors import DeadlineExceeded, RatchetError
from ratchet_kit.faults import MAX_REASON
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.retry import TRANSIENT
from ratchet_kit.times import Clock
from ratchet_kit.work import LEFT_ALONE, every, surviving
from ratchet_policies import BrokenOff, Generation, Prompt, Sampling, require_whole

log = get_logger(__name__)

PAGE = 100
"""Prompts that are read at once."""
LEASE = timedelta(minutes=1)
"""How long a gateway that died keeps an experiment from others."""
MAX_FAULTS = 10
"""Faults of the platform in one go through the prompts after which it counts as away, and the rest waits, too."""
REST = timedelta(seconds=10)
"""After a fault of the platform, or of ours; twice as long after each further one without an answer between."""
LONGEST_REST = timedelta(minutes=10)
PATIENCE = timedelta(hours=1)
"""So long the platform may fail without an answer between: then the replay ends, or is paused."""
MOST_LEFT_OUT = 0.1
"""Share of a variant's prompts that a replay may end without; if the platform fails at more, the replay is paused."""
ENDLESS: tuple[type[RatchetError], ...] = (DeadlineExceeded, BrokenOff)
"""Faults that, at the second try, are the version's error: its answer does not come to an end."""
ALL_ANSWERED = "every variant has answered all prompts"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    concurrency: int = 4
    """Answers that are made at the same time."""
    tick: timedelta = timedelta(seconds=1)
    """Between two looks for experiments."""
    renew: timedelta = timedelta(seconds=5)
    """Between two looks at the one under way: a pause is seen after it."""


@dataclass(frozen=True, slots=True)
class ReplayNeeds:
    """Parts of the gateway that replaying needs."""

    store: ExperimentStore
    traffic: CompletionLog
    exchanges: ExchangeStore
    experiments: Experiments
    serving: Serving
    grader: Grader


class _NotOurs(Exception):
    """The experiment is not to be gone on with: it was paused or stopped, or is with another gateway."""


class _Stuck(Exception):
    """A version cannot be loaded, and waiting does not help."""


@dataclass(frozen=True, slots=True)
class _Failing:
    """No answer since a fault of the platform, or of ours."""

    start_time: datetime
    rest: timedelta
    next_time: datetime

    def again(self, now: datetime) -> "_Failing":
        rest = min(2 * self.rest, LONGEST_REST)
        return _Failing(self.start_time, rest, now + rest)


@dataclass(frozen=True, slots=True)
class _Question:
    """A prompt to one variant."""

    number: int
    variant: Variant
    prompt: Prompt
    source: ReplayPrompt

    def id(self, experiment: Experiment) -> str:
        return answer_id(experiment.id, self.number, self.variant.name)


class Replayer:
    """One experiment after another; each is with one gateway at a time."""

    def __init__(self, needs: ReplayNeeds, clock: Clock, options: ReplayOptions) -> None:
        self._needs = needs
        self._clock = clock
        self._options = options
        self._owner = new_id("gw")
        self._failing: dict[str, _Failing] = {}
        """By the experiments' ids, from a fault to the next answer."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: answers under way are then left, and made again later."""
        working = asyncio.create_task(every(self._options.tick, stop, self.tick, name="replay prompts"))
        try:
            await stop.wait()
        finally:
            working.cancel()
            await asyncio.wait([working])

    async def tick(self) -> None:
        """After a rest, tries answers that the platform failed again. Pauses where a version cannot be loaded."""
        active = await self._needs.store.active()
        running = {one.id for one in active if one.state is State.RUNNING}
        self._failing = {id: one for id, one in self._failing.items() if id in running}
        for experiment in active:
            if self._is_due(experiment):
                with surviving("replay prompts", experiment_id=experiment.id), suppress(_NotOurs):
                    try:
                        await self._replay(experiment)
                    except _NotOurs:
                        raise
                    except _Stuck as error:
                        await self._needs.experiments.pause(experiment.id, str(error))
                    except Exception as error:
                        await self._failed(experiment, error)
                        raise

    def _is_due(self, experiment: Experiment) -> bool:
        now = self._clock.now()
        failing = self._failing.get(experiment.id)
        if experiment.spec.replay is None or (failing and now < failing.next_time):
            return False
        return experiment.state is State.RUNNING and experiment.hold.is_free(now, self._owner)

    async def _failed(self, experiment: Experiment, error: Exception) -> None:
        """Rests; ends it, or pauses it, once that has lasted too long: a platform that is not mended is not waited for
        for ever, and what it fails at is not the version's error."""
        now = self._clock.now()
        failing = self._failing.get(experiment.id) or _Failing(now, REST / 2, now)
        if now - failing.start_time < PATIENCE:
            self._failing[experiment.id] = failing.again(now)
            return
        fault = error.message if isinstance(error, RatchetError) else "a fault of the gateway, which its log has"
        missing = [
            one.variant.name
            for start in range(0, experiment.prompts, PAGE)
            for one in await self._missing(experiment, start)
        ]
        by_variant = Counter(missing)
        lasted = f"the platform has failed for {PATIENCE.total_seconds() / 60:.0f} minutes, at last with: {fault}"
        if max(by_variant.values(), default=0) <= MOST_LEFT_OUT * experiment.prompts:
            left_out = ", ".join(f"{number} of {name}" for name, number in by_variant.items()) or "none"
            reason = f"answers that are left out: {left_out}; {lasted}"
            await self._needs.experiments.conclude(experiment.id, reason[:MAX_REASON], early=True)
        else:
            await self._needs.experiments.pause(experiment.id, f"start goes on where it was; {lasted}"[:MAX_REASON])
        del self._failing[experiment.id]

    async def _replay(self, experiment: Experiment) -> None:
        await self._renew(experiment)
        faults = list[RatchetError]()
        try:
            for start in range(0, experiment.prompts, PAGE):
                await self._answer_all(experiment, await self._missing(experiment, start), faults)
            if faults:
                raise faults[0]
            await self._needs.experiments.conclude(experiment.id, ALL_ANSWERED, early=True)
        except BaseException:
            with suppress(RatchetError):
                current = await self._needs.store.get(experiment.id)
                await self._needs.store.save(current.given_back(self._owner))
            raise

    async def _renew(self, experiment: Experiment) -> None:
        """Raises _NotOurs."""
        try:
            current = await self._needs.store.get(experiment.id)
            await self._needs.store.save(current.taken(self._owner, self._clock.now(), LEASE))
        except LEFT_ALONE as error:
            raise _NotOurs from error

    async def _missing(self, experiment: Experiment, start: int) -> Sequence[_Question]:
        """The questions of a page of prompts without an answer yet. Exchanges that are no longer kept are left out."""
        page = await self._needs.store.prompts(experiment.id, start, PAGE)
        kept = await self._needs.exchanges.some([one.exchange_id for one in page if one.exchange_id])
        exchanged = {one.id: one.material.prompt for one in kept}
        found = [
            _Question(start + place, variant, prompt, one)
            for place, one in enumerate(page)
            if (prompt := one.prompt or exchanged.get(one.exchange_id))
            for variant in experiment.spec.variants
        ]
        recorded = await self._needs.traffic.recorded([one.id(experiment) for one in found])
        return [one for one in found if one.id(experiment) not in recorded]

    async def _answer_all(
        self, experiment: Experiment, questions: Sequence[_Question], faults: list[RatchetError]
    ) -> None:
        """Adds the platform's faults to `faults`, and raises one of them when there are MAX_FAULTS: one prompt that it
        fails at holds up no other."""
        for version in {one.variant.version for one in questions}:
            await self._load(version)
        waiting = deque(questions)

        async def work() -> None:
            while waiting:
                try:
                    await self._answer(experiment, waiting.popleft())
                except TRANSIENT as error:
                    faults.append(error)
                    if len(faults) >= MAX_FAULTS:
                        raise

        workers = {asyncio.create_task(work()) for _ in range(min(self._options.concurrency, len(questions)))}
        pending = workers
        try:
            while pending:
                renew = self._options.renew.total_seconds()
                done, pending = await asyncio.wait(pending, timeout=renew, return_when=asyncio.FIRST_EXCEPTION)
                for worker in done:
                    worker.result()
                await self._renew(experiment)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _load(self, version: VersionRef) -> None:
        """So that loading is no part of an answer's latency. Raises _Stuck, and one of TRANSIENT."""
        try:
            await self._needs.serving.ensure(version)
        except TRANSIENT:
            raise
        except RatchetError as error:
            raise _Stuck(f"{version} cannot be loaded: {error.message}"[:MAX_REASON]) from error

    async def _answer(self, experiment: Experiment, question: _Question) -> None:
        """Stores the answer's record. Raises one of TRANSIENT, and stores nothing, for a fault of the platform."""
        assert experiment.spec.replay is not None, "only such are replayed"
        start_time, version = self._clock.now(), question.variant.version
        record = CompletionRecord(
            id=question.id(experiment),
            start_time=start_time,
            version=version,
            arm=Arm.REPLAY,
            latency=timedelta(0),
            experiment_id=experiment.id,
            variant=question.variant.name,
            unit=unit_id(Unit.REQUEST, f"{experiment.id} {question.number}"),
        )
        try:
            made = await self._made(version, question.prompt, experiment.spec.replay.sampling)
        except RatchetError as error:
            if isinstance(error, TRANSIENT) and not isinstance(error, ENDLESS):
                raise
            log.warning("replay.failed", experiment_id=experiment.id, version=str(version), reason=error.message)
            latency = self._clock.now() - start_time
            await self._needs.traffic.append([replace(record, latency=latency, error=error.message)])
            self._failing.pop(experiment.id, None)
            return
        record = replace(
            record,
            latency=self._clock.now() - start_time,
            policy_id=made.policy_id,
            prompt_tokens=made.prompt_tokens,
            completion_tokens=sum(len(one.token_ids) for one in made.completions),
        )
        await self._needs.traffic.append([await self._graded(record, question, [one.text for one in made.completions])])
        self._failing.pop(experiment.id, None)

    async def _made(self, version: VersionRef, prompt: Prompt, sampling: Sampling) -> Generation:
        """A generation; asked for a second time after an ENDLESS fault."""
        try:
            return await self._made_once(version, prompt, sampling)
        except ENDLESS:
            return await self._made_once(version, prompt, sampling)

    async def _made_once(self, version: VersionRef, prompt: Prompt, sampling: Sampling) -> Generation:
        made = await self._needs.serving.generate(version, prompt, sampling)
        require_whole(made.completions)
        return made

    async def _graded(self, record: CompletionRecord, question: _Question, texts: Sequence[str]) -> CompletionRecord:
        """Without a score where the problem is not there or can judge nothing, whoever answers it."""
        problem = question.source.problem
        if problem is None:
            return record
        try:
            scores = await self._needs.grader.grade(problem, texts)
        except TRANSIENT:
            raise
        except RatchetError as error:
            log.warning("replay.not_graded", experiment_id=record.experiment_id, reason=error.message)
            return record
        return replace(record, score=sum(scores) / len(scores), problem=problem)
