"""A group: completions of one problem, played to the end of their episodes, graded and rewarded.

The work is waiting for two services: all of it runs on the job's background loop.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from ratchet_environments import Environment
from ratchet_kit.errors import InvalidArgument, RatchetError, Unavailable
from ratchet_kit.retry import TRANSIENT
from ratchet_policies import Sampling, TokenPrompt
from ratchet_problems import Problem
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.policy.seeds import group_seed
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.reward.rewarding import Earned, Rewarding
from trainer_service.job.reward.second_hand import Hands, SecondHand
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.faults import check_faults
from trainer_service.job.run.report import Reporter
from trainer_service.job.samples.answers import Answer, Answers
from trainer_service.job.samples.episodes import Played, Player
from trainer_service.job.samples.folders import CutOff, FolderPlayer
from trainer_service.job.samples.prompting import Prompting, Put
from trainer_service.job.samples.returns import advantages
from trainer_service.job.samples.tally import Tallied, Turns, Waits, repetition

_LOST: tuple[type[RatchetError], ...] = (*TRANSIENT, InvalidArgument)
"""Errors that cost an episode, and say nothing about the policy."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What is asked of the engine for one problem."""

    problem: Problem
    size: int
    """Completions."""
    step: int
    """Whose temperature, and weights of the reward, they have."""
    seed: int
    greedy: bool = False
    """One completion more, whose reward is the baseline of the others; without it they teach nothing."""
    unrewarded: Problem | None = None
    """The same problem with the tests that judge what passes `problem`, and earn nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode with what it earns; of one answer, where the environment has one turn."""

    played: Played
    earned: Earned
    rewards: Sequence[float]
    """Of each answer of the last trajectory, at its last token: they make earned.reward."""
    turns: Turns | None
    """Where the environment has several."""
    second_hand: bool | None = None
    """It passes the tests that earn nothing; None: it was not judged by them."""
    advantages: Sequence[float] = ()
    """Advantages of the answers that are learned from, in the order of the episode, where credit is given by turn."""

    @property
    def turn_rewards(self) -> Sequence[float]:
        """Rewards of the answers that are learned from, in the order of the episode: they make earned.reward."""
        if len(self.played.trajectories) == 1:
            return self.rewards
        return [*[0.0] * (len(self.played.answers) - 1), self.earned.reward]

    @property
    def verdict(self) -> str:
        return self.played.episode.turns[-1].grade.verdict

    @property
    def passed(self) -> bool:
        return self.played.episode.turns[-1].grade.passed

    @property
    def tallied(self) -> Tallied:
        repeated = fmean(map(repetition, self.played.answers))
        return Tallied(self.verdict, self.earned, repeated, self.turns, self.second_hand)


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one problem, without those that the platform failed."""

    samples: Sequence[Sample]
    greedy: float | None = None
    """The reward of its greedy completion, where there is one."""
    waits: Waits | None = None
    cut_off: int = 0
    """Number of episodes whose time was over: they are no samples, and no faults."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """None for an episode that the platform failed, or that was cut off."""

    played: Sequence[Played | None]
    waits: Waits
    cut_off: int = 0


class Groups:
    """Makes the groups of one run. Each answer of an episode is rewarded where the algorithm has steps, or credit is
    given by turn."""

    def __init__(
        self,
        job: JobConfig,
        policy: RunPolicy,
        environment: Environment,
        rewarding: Rewarding,
        sent: WeightVersions,
        prompting: Prompting,
        reporter: Reporter,
        second_hand: SecondHand | None = None,
        folders: FolderPlayer | None = None,
    ) -> None:
        """`second_hand`: None judges by all tests of a problem, and rewards by all. `folders`: plays where the problems
        stand for task folders."""
        self._spec = job.spec
        self._max_fault_share = job.max_fault_share
        self._discount = job.spec.hyperparameters.turn_discount or 0.0
        self._has_steps = job.algorithm.has_steps or self._discount > 0
        self._divides = job.algorithm.divides_by_deviation
        self._answers = Answers(policy, sent)
        self._rewarding = rewarding
        self._sent = sent
        self._prompting = prompting
        most = job.spec.hyperparameters.max_response_tokens or 0
        self._player = Player(environment, prompting, most)
        self._folders = folders
        self._sampling = Sampling(top_p=1.0, max_tokens=most, logprobs=True)
        self._reporter = reporter
        self._second_hand = second_hand
        self.last_fault: RatchetError | None = None
        """Why a sample was lost; None where none was."""

    async def validate(self, problems: Sequence[Problem], step: int = 0, samples: int = 1) -> list[Group]:
        """`samples` completions of each problem, made by the weights now sent, which are those of `step`: at the
        temperature, and scored by the weights of the reward, that there are at the run's last step."""
        spec = self._spec
        seeds = [group_seed(spec.seed, "validate", step, problem.id) for problem in problems]
        draws = [Draw(problem, samples, spec.steps, seed) for problem, seed in zip(problems, seeds, strict=True)]
        return await asyncio.gather(*map(self.make, draws))

    def split(self, problem: Problem) -> Hands:
        """A problem to learn from, by the tests that earn its reward and those that do not."""
        return self._second_hand.split(problem) if self._second_hand else Hands(problem, None)

    def check_faults(self, step: int, lost: int, expected: int) -> None:
        """Raises what ends the attempt, where too many of the `expected` samples of a step were lost."""
        check_faults(step, lost, expected, self._max_fault_share, self.last_fault, self._reporter.has_stepped)

    async def make(self, draw: Draw) -> Group:
        """Raises what is no fault of the platform with one sample: its weights are others', it is away for too long."""
        drawn = await (self._on_folder(self._folders, draw) if self._folders else self._on_problem(draw))
        began = time.monotonic()
        there = iter(await self._earn(draw, [one for one in drawn.played if one is not None]))
        samples = [None if one is None else next(there) for one in drawn.played]
        baseline = samples.pop() if draw.greedy else None
        if draw.greedy and baseline is None:
            return Group([])
        waits = replace(drawn.waits, judge=drawn.waits.judge + time.monotonic() - began)
        kept = [sample for sample in samples if sample is not None]
        if self._second_hand and draw.unrewarded:
            kept = await self._by_second_hand(self._second_hand, draw.unrewarded, kept)
        if self._discount:
            found = advantages([one.turn_rewards for one in kept], self._discount, scaled=self._divides)
            kept = [replace(one, advantages=own) for one, own in zip(kept, found, strict=True)]
        return Group(kept, baseline.earned.reward if baseline else None, waits, drawn.cut_off)

    async def _on_problem(self, draw: Draw) -> _Drawn:
        """The greedy one last."""
        put = self._prompting.put(draw.problem)
        temperature = self._spec.temperature_at(draw.step)
        sampling = replace(self._sampling, n=draw.size, seed=draw.seed, stop=put.prompt.stop, temperature=temperature)
        wanted = [sampling, replace(sampling, n=1, temperature=0.0)] if draw.greedy else [sampling]
        began, prompt = time.monotonic(), TokenPrompt(tuple(put.tokens))
        drawn = await asyncio.gather(*(self._answers.draw(prompt, one) for one in wanted))
        sampled = time.monotonic()
        firsts = [
            (answer, replace(one, n=1, seed=draw.seed + answer.completion.index))
            for one, some in zip(wanted, drawn, strict=True)
            for answer in some
        ]
        played = await asyncio.gather(*(self._play(put, first, one) for first, one in firsts))
        return _Drawn(played, Waits(sampled - began, time.monotonic() - sampled))

    async def _on_folder(self, player: FolderPlayer, draw: Draw) -> _Drawn:
        sampling = replace(self._sampling, temperature=self._spec.temperature_at(draw.step))

        async def play(index: int) -> Played | CutOff | None:
            try:
                seeded = replace(sampling, seed=draw.seed + index)
                return await player.play(self._answers.generate, draw.problem, seeded, self._sent.of)
            except CutOff as error:
                self.last_fault = error
                return error
            except _LOST as error:
                self.last_fault = error
                return None

        began = time.monotonic()
        played = await asyncio.gather(*map(play, range(draw.size)))
        whole = [one if isinstance(one, Played) else None for one in played]
        cut_off = sum(isinstance(one, CutOff) for one in played)
        return _Drawn(whole, Waits(time.monotonic() - began, 0.0), cut_off)

    async def _play(self, put: Put, first: Answer, sampling: Sampling) -> Played | None:
        """None when the engine broke an answer off, the platform could not reach a verdict, or the problem's tests can
        judge no program: that says nothing about the policy. One that ends at once has its end token, and is judged."""
        try:
            return await self._player.play(self._answers.draw, put, first, sampling)
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error
            return None

    async def _earn(self, draw: Draw, played: Sequence[Played]) -> Sequence[Sample | None]:
        """None for what could not be measured, be it the platform's fault or that of a reward of one's own."""
        judged = [one.graded if self._has_steps else one.graded[-1:] for one in played]
        graded = [one for some in judged for one in some]
        try:
            of_all = iter(await self._rewarding.of_group(draw.problem, graded, draw.step))
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error
            return [None] * len(played)
        earned = [[next(of_all) for _ in some] for some in judged]
        if any(None in some for some in earned):
            self.last_fault = InvalidArgument(f"{draw.problem.id}: {self._rewarding.own} must give a finite number")
        return [self._sample(*both) for both in zip(played, earned, strict=True)]

    def _sample(self, played: Played, earned: Sequence[Earned | None]) -> Sample | None:
        """`earned`: of each answer, which is rewarded by what it gains over the one before, from 0; or of the last
        alone, which has all. None where one is not known."""
        known = [one for one in earned if one is not None]
        if len(known) < len(earned):
            return None
        worth = [0.0, *(one.before_length for one in known[:-1]), known[-1].reward]
        gains = [after - before for before, after in pairwise(worth)]
        answers, ends = played.episode.turns, played.trajectories[-1].ends
        turns = None
        if self._folders:
            turns = Turns(len(played.answers))
        elif self._spec.environment:
            turns = Turns(len(answers), answers[0].grade.passed)
        return Sample(played, known[-1], [0.0] * (len(ends) - len(gains)) + gains, turns)

    async def _by_second_hand(self, judge: SecondHand, unrewarded: Problem, samples: Sequence[Sample]) -> list[Sample]:
        answers = [one.played.episode.turns[-1].answer for one in samples if one.passed]
        known = iter(await judge.passes(unrewarded, answers))
        return [replace(one, second_hand=next(known)) if one.passed else one for one in samples]
