"""The samples of an attempt: what draws hands to what judges."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.parallel import each
from eval_service.domain.ports import Answer
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from ratchet_environments import Episode, Task
from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.times import Clock


class Origin(Protocol):
    """Where a sample comes from."""

    def judged(self, sample: Sample) -> tuple[Task, str]:
        """The task that judges a sample, and the answer that is judged."""
        ...

    async def reply(self, key: SampleKey, episode: Episode) -> Answer | None:
        """The next answer of the sample's episode; None where the model has no room for one. Raises FailedPrecondition
        where there is no model."""
        ...


Judging: TypeAlias = Callable[[Sample, Origin], Awaitable[None]]
"""Judges a sample that is stored. Raises InvalidArgument for a problem that cannot be run."""


class Samples(Protocol):
    async def each(self, judge: Judging, at_once: int) -> Mapping[ProblemKey, str]:
        """Judges every sample that is not judged yet, as it comes, `at_once` together. Returns the problems that can
        judge no sample, with the reason."""
        ...


class AddedSamples:
    """Samples that the caller added."""

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self._attempt = attempt
        self._clock = clock

    async def each(self, judge: Judging, at_once: int) -> Mapping[ProblemKey, str]:
        """Begins with problems that take long."""
        attempt = await self._attempt.begin(self._clock)
        keys = {count.key for count in await attempt.counts()}
        slow = keys.intersection(attempt.sets.slow)
        faults: dict[ProblemKey, str] = {}

        async def todo() -> AsyncIterator[Sample]:
            for some in filter(None, (slow, keys - slow)):
                async for sample in attempt.unjudged(some):
                    yield sample

        async def work(sample: Sample) -> None:
            if sample.key.problem in faults:
                return
            try:
                await judge(sample, self)
            except InvalidArgument as error:
                faults[sample.key.problem] = error.message

        await each(todo(), work, at_once)
        return faults

    def judged(self, sample: Sample) -> tuple[Task, str]:
        sets = self._attempt.sets
        return sets.task(sample.key.problem, is_program=True), sets.program(sample)

    async def reply(self, key: SampleKey, episode: Episode) -> Answer | None:
        raise FailedPrecondition(f"one answer to {key.problem_id} does not end its episode")
