"""What people prefer: pairs of samples to choose from, their votes, a ranking by the votes."""

import asyncio
import random
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import combinations

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.pair import Choice, Pair, Side
from eval_service.domain.ports import EvaluationStore, PairStore, ProblemSource, SampleFilter
from eval_service.domain.ranking import Rank, Vote, rank
from eval_service.domain.sample import ProblemKey, Sample
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.idempotency import Request, once
from ratchet_kit.ids import new_id
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock

PASSED = "PASSED"
PROBLEMS_TRIED = 50
"""For one pair."""
SAMPLES_TRIED = 100
"""Of one problem and evaluation, to draw from."""

_SCORES = {Choice.LEFT: 1.0, Choice.RIGHT: 0.0, Choice.TIE: 0.5}


@dataclass(frozen=True, slots=True)
class Pairing:
    """What pair is wanted."""

    ids: Sequence[str]
    """Evaluations, two or more."""
    voter: str
    passed_only: bool = False
    """Samples that passed their tests alone."""


class Preferences:
    def __init__(
        self,
        store: PairStore,
        evaluations: EvaluationStore,
        problems: ProblemSource,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self._store = store
        self._evaluations = evaluations
        self._problems = problems
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    async def create(self, wanted: Pairing, request_id: str) -> Pair:
        """Draws a pair and stores it. Raises NotFound, AlreadyExists when the request's id was used for another pair,
        FailedPrecondition when there are no two samples left that differ."""
        request = Request.of(request_id, sorted(wanted.ids), wanted.voter, wanted.passed_only)

        async def draw() -> Pair:
            return await self._store.create(await self._drawn(wanted), request)

        return await once(lambda: self._store.find(request), draw)

    async def vote(self, id: str, choice: Choice) -> Pair:
        """Raises NotFound, FailedPrecondition when another choice was made."""
        now = self._clock.now()
        return await self._store.change(id, lambda pair: pair.vote(choice, now))

    async def page(self, size: int, token: str, evaluation_id: str = "") -> Page[Pair]:
        """Newest first; of one evaluation where it is named."""

        async def fetch(limit: int, after: str | None) -> Sequence[Pair]:
            return await self._store.page(limit, after, evaluation_id)

        return await fetch_page(fetch, lambda pair: pair.id, str, size, token)

    async def rank(self, ids: Sequence[str], confidence: float) -> list[Rank]:
        """The strongest first. Raises FailedPrecondition when votes do not connect them."""
        votes = [
            Vote(
                pair.left.evaluation_id,
                pair.right.evaluation_id,
                _SCORES[pair.choice],
                (pair.benchmark, pair.problem_id),
            )
            for pair in await self._store.between(ids)
            if pair.choice
        ]
        return await asyncio.to_thread(rank, ids, votes, confidence)

    async def _drawn(self, wanted: Pairing) -> Pair:
        found = {id: await self._evaluations.get(id) for id in wanted.ids}
        before = await self._store.between(wanted.ids)
        paired = Counter(frozenset((pair.left.evaluation_id, pair.right.evaluation_id)) for pair in before)
        seen = {pair.samples for pair in before if pair.voter == wanted.voter}
        choices = list(combinations(wanted.ids, 2))
        self._chance.shuffle(choices)
        for first, second in sorted(choices, key=lambda two: paired[frozenset(two)]):
            if pair := await self._between(found[first], found[second], wanted, seen):
                return pair
        raise FailedPrecondition("there are no two samples of these evaluations left that differ")

    async def _between(
        self, first: Evaluation, second: Evaluation, wanted: Pairing, seen: Container[frozenset[object]]
    ) -> Pair | None:
        facts = await self._evaluations.problems([first.id, second.id])
        both = {one.key for one in facts[first.id]} & {one.key for one in facts[second.id]}
        keys = sorted(both, key=lambda key: (key.benchmark, key.problem_id))
        for key in self._chance.sample(keys, min(len(keys), PROBLEMS_TRIED)):
            sides = [side for one in (first, second) if (side := await self._side(one, key, wanted.passed_only))]
            if len(sides) < 2 or sides[0].text == sides[1].text:
                continue
            self._chance.shuffle(sides)
            prompt = await self._prompt(first, key)
            now = self._clock.now()
            pair = Pair(new_id("pair"), wanted.voter, key.benchmark, key.problem_id, prompt, sides[0], sides[1], now)
            if pair.samples not in seen:
                return pair
        return None

    async def _side(self, evaluation: Evaluation, key: ProblemKey, passed_only: bool) -> Side | None:
        only = SampleFilter(key.benchmark, key.problem_id, PASSED if passed_only else "")
        samples: Sequence[Sample] = await self._evaluations.sample_page(evaluation.id, SAMPLES_TRIED, None, only)
        if not samples:
            return None
        sample = self._chance.choice(samples)
        return Side(evaluation.id, sample.key.index, sample.completion)

    async def _prompt(self, evaluation: Evaluation, key: ProblemKey) -> str:
        entry = next(entry for entry in evaluation.spec.suite if entry.problems.name == key.benchmark)
        problems = (await self._problems.load(entry.problems, evaluation.spec.kind)).problems
        return next((problem.shown for problem in problems if problem.id == key.problem_id), "")
