"""Measures: draws what is missing of an evaluation's samples, judges and stores them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from eval_service.domain.evaluation import Evaluation, PassAtK, Sample
from eval_service.domain.ports import (
    EvaluationStore,
    LoadedPolicy,
    Meter,
    PolicyHost,
    ProblemSource,
    SampleKey,
)
from eval_service.domain.statistics import estimate_pass_at_k
from ratchet_environments import Environment, Episode, Task
from ratchet_kit.errors import (
    DeadlineExceeded,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_policies import LOST, Sampling
from ratchet_problems import Problem

log = get_logger(__name__)

T = TypeVar("T")

_WORTH_A_RETRY = (Unavailable, ResourceExhausted, DeadlineExceeded)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long the platform may be at fault before an evaluation fails for it."""

    without_progress: timedelta = timedelta(minutes=5)
    """Without a single new sample."""
    for_room: timedelta = timedelta(minutes=30)
    """Until rollout-service has room for the policy."""
    pause: timedelta = timedelta(seconds=2)
    """Between two attempts."""
    losses: int = 3
    """How often the policy may get lost, and be loaded anew."""


@dataclass(frozen=True, slots=True)
class _Missing:
    problem: Problem
    index: int


class _Lost(Exception):
    """The policy is gone or has other weights: open it again."""


class Measurer:
    def __init__(
        self,
        store: EvaluationStore,
        problems: ProblemSource,
        host: PolicyHost,
        environment: Environment,
        meter: Meter,
        clock: Clock,
        concurrency: int = 48,
        deadlines: Deadlines = Deadlines(),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`concurrency`: samples under way together, so that the engine has batches to decode."""
        self._store = store
        self._problems = problems
        self._host = host
        self._environment = environment
        self._meter = meter
        self._clock = clock
        self._concurrency = concurrency
        self._deadlines = deadlines
        self._sleep = sleep

    async def run(self, evaluation: Evaluation, owner: str) -> Sequence[PassAtK]:
        """The result of an evaluation that `owner` holds, once all its samples are stored.

        Resumable: what is stored already is not drawn again. Raises a RatchetError, whose text is the reason, when the
        evaluation cannot be made: a fault of the platform never counts as a wrong answer.
        """
        problem_set = await self._problems.load(evaluation.spec.problems)
        count = len(problem_set.problems)
        evaluation = await self._store.change(
            evaluation.id, lambda now: now.load_problems(owner, problem_set.digest, count)
        )
        losses = 0
        while missing := await self._missing(evaluation, problem_set.problems):
            try:
                evaluation = await self._draw_with_policy(evaluation, owner, missing)
            except _Lost as error:
                losses += 1
                if losses > self._deadlines.losses:
                    raise Unavailable(f"the policy was lost {losses} times: {error}") from error
                log.warning("evaluation.policy_lost", evaluation_id=evaluation.id, reason=str(error))
        tallies = list((await self._store.tallies(evaluation.id)).values())
        return [PassAtK(k, estimate_pass_at_k(tallies, k)) for k in evaluation.spec.k]

    async def _missing(self, evaluation: Evaluation, problems: Sequence[Problem]) -> Sequence[_Missing]:
        done = await self._store.sample_keys(evaluation.id)
        return [
            _Missing(problem, index)
            for problem in problems
            for index in range(evaluation.spec.samples_per_problem)
            if SampleKey(problem.id, index) not in done
        ]

    async def _draw_with_policy(self, evaluation: Evaluation, owner: str, missing: Sequence[_Missing]) -> Evaluation:
        async with AsyncExitStack() as stack:
            policy = await self._open(evaluation, stack)
            evaluation = await self._store.change(evaluation.id, lambda now: now.measure(owner, policy.policy_id))
            await self._draw(evaluation, policy, missing)
        return evaluation

    async def _open(self, evaluation: Evaluation, stack: AsyncExitStack) -> LoadedPolicy:
        deadline = self._clock.now() + self._deadlines.for_room
        while True:
            try:
                return await stack.enter_async_context(self._host.open(evaluation.measured_model, evaluation.id))
            except _WORTH_A_RETRY as error:
                if self._clock.now() >= deadline:
                    raise Unavailable(f"the policy could not be loaded: {error.message}") from error
                self._meter.retried(type(error).__name__)
                await self._sleep(self._deadlines.pause.total_seconds())

    async def _draw(self, evaluation: Evaluation, policy: LoadedPolicy, missing: Sequence[_Missing]) -> None:
        todo = iter(missing)
        progress = _Progress(self._clock)

        async def work() -> None:
            for item in todo:  # all workers share it: each takes the next
                await self._sample(evaluation, policy, item, progress)
                progress.made()

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._concurrency, len(missing))):
                    workers.create_task(work())
        except ExceptionGroup as error:
            raise error.exceptions[0] from error  # the first one ended the others

    async def _sample(
        self, evaluation: Evaluation, policy: LoadedPolicy, item: _Missing, progress: "_Progress"
    ) -> None:
        """Draws, judges and stores one sample."""
        episode = await self._play(evaluation, policy, item, progress)
        assert episode.outcome is not None
        grade = episode.outcome.grade
        sample = Sample(
            problem_id=item.problem.id,
            index=item.index,
            completion=episode.answer,
            verdict=grade.verdict,
            tests_passed=grade.tests_passed,
            tests_total=grade.tests_total,
            policy_id=policy.policy_id,
            detail=grade.detail,
            forgeable=grade.forgeable,
        )
        await self._insist(lambda: self._store.add_sample(evaluation.id, sample), progress)
        self._meter.sampled(sample.verdict)

    async def _play(
        self, evaluation: Evaluation, policy: LoadedPolicy, item: _Missing, progress: "_Progress"
    ) -> Episode:
        """The policy and the environment in turn, to the episode's end."""
        spec, seed = evaluation.spec, evaluation.seed_of(item.problem.id, item.index)
        sampling = Sampling(temperature=spec.temperature, max_tokens=spec.max_tokens, seed=seed)

        async def complete(episode: Episode) -> str:
            try:
                return await policy.complete(episode.messages, sampling)
            except LOST as error:
                raise _Lost(str(error)) from error

        episode = await self._insist(partial(self._environment.start, Task.of(item.problem)), progress)
        while episode.outcome is None:
            answer = await self._insist(partial(complete, episode), progress)
            episode = await self._insist(partial(self._environment.step, episode, answer), progress)
        return episode

    async def _insist(self, attempt: Callable[[], Awaitable[T]], progress: "_Progress") -> T:
        """Tries again while the platform is at fault, as long as samples are made now and then."""
        while True:
            try:
                return await attempt()
            except _WORTH_A_RETRY as error:
                idle = progress.idle()
                if idle >= self._deadlines.without_progress:
                    raise Unavailable(
                        f"not one sample could be made for {idle.total_seconds():.0f} s: {error.message}"
                    ) from error
                self._meter.retried(type(error).__name__)
                hint = error.retry_after if isinstance(error, ResourceExhausted) else None
                await self._sleep(max(hint or timedelta(), self._deadlines.pause).total_seconds())


class _Progress:
    """Since when there has been no new sample."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now()

    def made(self) -> None:
        self._last = self._clock.now()

    def idle(self) -> timedelta:
        return self._clock.now() - self._last
