"""Stage 3 of 5: draws the samples that are missing, where the caller added none."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from eval_service.domain.measuring.attempt import PAGE, Attempt
from eval_service.domain.measuring.patience import WORTH_A_RETRY, OutOfPatience
from eval_service.domain.measuring.player import Player
from eval_service.domain.measuring.sampler import Lost, Sampler, Wanted, has_no_room
from eval_service.domain.measuring.samples import AddedSamples, Judging, Samples
from eval_service.domain.parallel import Batches, each, parts
from eval_service.domain.ports import LoadedPolicy, PolicyHost
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.spec import Kind
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

EPISODES = 16
"""Episodes of a harness that are played together."""


class Drawer:
    def __init__(self, host: PolicyHost, clock: Clock, at_once: int = 48, moment: float = 0.05) -> None:
        """`at_once`: samples that are drawn together, so that the engine has batches to decode. `moment`: seconds in
        which samples go to the store together."""
        self._host = host
        self._clock = clock
        self._at_once = at_once
        self._moment = moment

    def draw(self, attempt: Attempt) -> Samples:
        """Draws none yet: a sample is drawn when there is a hand to judge it."""
        if attempt.is_imported:
            return AddedSamples(attempt, self._clock)
        if attempt.spec.kind is Kind.FOLDERS:
            return DrawnSamples(attempt, self._host, self._clock, self._player, EPISODES, self._moment)
        return DrawnSamples(attempt, self._host, self._clock, self._sampler, self._at_once, self._moment)

    def _sampler(self, attempt: Attempt, policy: LoadedPolicy) -> Sampler:
        return Sampler(attempt, policy, self._clock, self._at_once)

    def _player(self, attempt: Attempt, policy: LoadedPolicy) -> Player:
        return Player(attempt, policy, EPISODES)


class DrawnSamples:
    """Samples of a policy, which is loaded while they are drawn and judged."""

    def __init__(
        self,
        attempt: Attempt,
        host: PolicyHost,
        clock: Clock,
        sampler: Callable[[Attempt, LoadedPolicy], Sampler | Player],
        at_once: int,
        moment: float,
    ) -> None:
        self._attempt = attempt
        self._host = host
        self._clock = clock
        self._sampler = sampler
        self._at_once = at_once

        async def store(drawn: list[Sample]) -> None:
            await attempt.patience.insist(lambda: attempt.store.add_samples(attempt.id, drawn))

        self._batches = Batches(store, moment)

    async def each(self, judge: Judging, at_once: int) -> Mapping[ProblemKey, str]:
        """Loads a policy that was lost again. A problem that can judge no sample is an error. Raises OutOfPatience,
        FailedPrecondition for another policy than before, what `judge` raises."""
        attempt, losses, drawn = self._attempt, 0, 0
        while await self._is_unfinished():
            try:
                async with AsyncExitStack() as stack:
                    policy = await self._open(attempt, stack)
                    attempt.spent.policies.append(policy)
                    attempt = await attempt.begin(self._clock, policy)
                    sampler = self._sampler(attempt, policy)
                    while await self._is_unfinished():
                        await self._draw(sampler, judge, at_once)
            except Lost as error:
                before, drawn = drawn, len(await attempt.store.sample_keys(attempt.id))
                losses = 1 if drawn > before else losses + 1
                if losses > attempt.patience.deadlines.losses:
                    raise OutOfPatience(f"the policy was lost {losses} times without a new sample: {error}") from error
                log.warning("evaluation.policy_lost", evaluation_id=attempt.id, reason=str(error))
        return {}

    async def _open(self, attempt: Attempt, stack: AsyncExitStack) -> LoadedPolicy:
        patience = attempt.patience
        deadline = self._clock.now() + patience.deadlines.for_room
        while True:
            try:
                return await stack.enter_async_context(self._host.open(attempt.evaluation.measured_model, attempt.id))
            except WORTH_A_RETRY as error:
                if self._clock.now() >= deadline:
                    raise OutOfPatience(f"the policy could not be loaded: {error.message}") from error
                await patience.pause(error)
            finally:
                patience.made()  # waiting for room is no fault of what comes after

    async def _draw(self, sampler: Sampler | Player, judge: Judging, at_once: int) -> None:
        """One round: a sample that is drawn leaves its place at the engine to the next while it is judged. A request
        that several sets share is drawn for one of them; the next round finds it for the others."""
        begun: set[str] = set()

        async def todo() -> AsyncIterator[Wanted | Sample]:
            async for sample in self._attempt.unjudged():
                yield sample
            for keys in parts(await self._missing(), PAGE):
                wanted = [sampler.wanted(key) for key in keys]
                known = await self._attempt.store.drawn([one.request for one in wanted])
                for one in wanted:
                    if one.request in known:
                        yield known[one.request].again(one.key)
                    elif one.request not in begun:
                        begun.add(one.request)
                        yield one

        async def make(item: Wanted | Sample) -> None:
            try:
                sample = await sampler.draw(item) if isinstance(item, Wanted) else item
            except InvalidArgument as error:
                if not has_no_room(error):
                    raise
                await self._attempt.leave_out({item.key.problem: error.message})
                return
            await self._batches.add(sample)  # whatever happens now, it is not drawn again
            await judge(sample, sampler)

        await each(todo(), make, self._at_once + at_once)

    async def _is_unfinished(self) -> bool:
        return bool(await self._attempt.store.unjudged(self._attempt.id, 1, None) or await self._missing())

    async def _missing(self) -> Sequence[SampleKey]:
        """Begins with problems that take long, and then with the longest prompt."""
        attempt = self._attempt
        done = await attempt.store.sample_keys(attempt.id)
        excluded = {fact.key for fact in await attempt.facts() if fact.excluded}
        keys = (
            SampleKey(key.benchmark, key.problem_id, index)
            for key in attempt.sets.problems
            if key not in excluded
            for index in range(attempt.spec.samples_per_problem)
        )
        todo = [key for key in keys if key not in done]
        # A prompt that has no room is found before work is done for the others.
        longest = max(todo, key=lambda key: len(attempt.sets.problems[key.problem].prompt), default=None)
        return sorted(todo, key=lambda key: (key.problem not in attempt.sets.slow, key != longest))
