"""Completions and their verdicts for verl: what verl calls an agent loop manager.

verl hands over a batch of prompts and goes on; each prompt then becomes a group of samples in the TransferQueue, from
where the replay buffer takes them. The work is waiting for two services, so it runs on the job's background loop.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_benchmarks import Prompt
from ratchet_environments import Environment
from ratchet_kit.errors import DataLoss, InvalidArgument, RatchetError, Unavailable
from ratchet_policies import Completion, Sampling, with_recovery
from ratchet_problems import Problem
from trainer_service.job.background import Background
from trainer_service.job.curriculum import Evidence, Gathered
from trainer_service.job.episodes import Complete, Played, Player, Reply
from trainer_service.job.policy import RunPolicy
from trainer_service.job.rewarding import Earned, Rewarding
from trainer_service.job.seeds import group_seed
from trainer_service.job.tally import Tallied, Tally, Turns, Waits, repetition
from trainer_service.job.verl.algorithms import BEFORE_LENGTH


@dataclass(slots=True)  # mutable: written by the main thread between generations, read by the background loop in them
class Weights:
    """The weights that rollout-service was last given."""

    push: Callable[[], str]
    """Sends them again, and returns their policy id."""
    policy_id: str = ""
    step: int = 0
    """After which the trainer had them."""
    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode with what it earns; of one answer, where the environment has one turn."""

    played: Played
    earned: Earned
    rewards: Sequence[float]
    """Of each answer, at its last token: they make earned.reward."""

    @property
    def turns(self) -> Turns:
        turns = self.played.episode.turns
        return Turns(len(turns), turns[0].grade.passed)


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one prompt, without those that the platform failed."""

    prompt: Sequence[int]
    samples: Sequence[Sample]
    greedy: float = 0.0
    """The reward of its greedy completion, where there is one."""
    waits: Waits | None = None


@dataclass(frozen=True, slots=True)
class Prompted:
    """A training prompt, and the weights that answer it: those that the engine had when it was drawn."""

    uid: str
    index: int
    """Of its problem."""
    problem: Problem
    step: int
    """That learns from it."""
    seed: int
    policy_id: str
    version: int
    """The step after which the trainer had the weights. Samples are stale where that is not the one before `step`."""


@dataclass(slots=True)  # mutable: written by the background loop, read by the main thread once its step learns from it
class Made:
    """What is made for a step."""

    tally: Tally = field(default_factory=Tally)
    greedy: dict[str, float] = field(default_factory=dict)
    """The reward of the greedy completion of each prompt that has one, by its uid."""
    places: dict[str, int] = field(default_factory=dict)
    drawn: Counter[str] = field(default_factory=Counter)
    running: list[Future[None]] = field(default_factory=list)
    shown: tuple[str, Group] | None = None
    """The first prompt's problem and samples."""
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    """When its last group was judged; seconds, of the same clock."""

    @property
    def greedy_mean(self) -> float:
        """Of the prompts that have one."""
        return fmean(self.greedy.values()) if self.greedy else 0.0

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended - self.began)


class Rollouts:
    """Makes groups. `group_size` completions per training prompt are sampled by the weights that the engine has when
    the prompt comes, at the `temperature` of its step. Validations are sampled at the temperature, and scored by the
    weights of the reward, that there are at the `last_step` of the run. A group of which fewer than `fewest` samples
    are left teaches nothing: a lone one would be its own baseline. `has_greedy`: each group has one completion more,
    the greedy one, whose reward is the baseline of the others; without it they teach nothing. `has_steps`: each answer
    of an episode is rewarded. `has_turns`: they are counted, since the environment has several. `evidence` has what a
    curriculum goes by.

    A first failure that is not a platform fault ends all: it is kept, and raised to the trainer by `wait`.
    """

    def __init__(
        self,
        *,
        background: Background,
        policy: RunPolicy,
        environment: Environment,
        weights: Weights,
        put: Callable[[Problem], Prompt],
        tokenize: Callable[[Prompt], list[int]],
        detokenize: Callable[[Sequence[int]], str],
        reply: Reply,
        problems: Sequence[Problem],
        group_size: int,
        fewest: int = 1,
        seed: int = 0,
        temperature: Callable[[int], float],
        max_tokens: int,
        rewarding: Rewarding,
        last_step: int,
        has_greedy: bool = False,
        has_steps: bool = False,
        has_turns: bool = False,
    ) -> None:
        self._background = background
        self._policy = policy
        self._detokenize = detokenize
        self._player = Player(environment, detokenize, reply, max_tokens)
        self._weights = weights
        self._put = put
        self._tokenize = tokenize
        self._problems = problems
        self._group_size = group_size
        self._fewest = fewest
        self._seed = seed
        self._has_greedy = has_greedy
        self._has_steps = has_steps
        self._has_turns = has_turns
        self._made: dict[int, Made] = {}
        self._steps: dict[str, int] = {}
        self._temperature = temperature
        self._sampling = Sampling(top_p=1.0, max_tokens=max_tokens, logprobs=True)
        self._rewarding = rewarding
        self._last_step = last_step
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self.evidence = Gathered()
        self.last_fault = ""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's entry: starts one group per row, by its "uid" and the "index" of its problem, and returns at once."""
        step = int(tu.get(prompts, "global_steps"))
        made = self._made.setdefault(step, Made())
        for uid, index in zip(prompts["uid"], prompts["index"], strict=True):
            problem = self._problems[int(index)]
            seed = group_seed(self._seed, "train", step, problem.id, made.drawn[problem.id])
            one = Prompted(str(uid), int(index), problem, step, seed, self._weights.policy_id, self._weights.step)
            made.places[one.uid] = len(made.places)
            made.drawn[problem.id] += 1
            self._steps[one.uid] = step
            made.running.append(self._background.start(self._publish(one, made)))

    def wait_made(self) -> None:
        """Until all groups are there that were asked for. Raises the first failure."""
        for made in self._made.values():
            for group in made.running:
                group.exception()  # it keeps none: it waits
        if self._failure is not None:
            raise self._failure

    def made(self, step: int) -> Made:
        return self._made.get(step) or Made()

    def forget(self, step: int) -> None:
        """What was made for this step and those before."""
        self._made = {later: made for later, made in self._made.items() if later > step}
        self._steps = {uid: later for uid, later in self._steps.items() if later > step}

    def place_of(self, uid: str) -> int:
        """Of a prompt among those of its step, in the order in which verl drew them."""
        return self.made(self._steps[uid]).places[uid]

    def greedy_of(self, uid: str) -> float:
        """The reward of the greedy completion of a prompt; 0 for what is no prompt: verl's padding."""
        return self.made(self._steps.get(uid, 0)).greedy.get(uid, 0.0)

    def shown(self, step: int) -> list[dict[str, Any]]:
        """The samples of the step's first prompt, for people to read."""
        shown = self.made(step).shown
        if shown is None:
            return []
        problem, group = shown
        prompt = self._detokenize(group.prompt)
        return [
            {
                "problem": problem,
                "prompt": prompt,
                "completion": self._detokenize(sample.played.tokens),
                "verdict": sample.played.episode.turns[-1].grade.verdict,
                "reward": sample.earned.reward,
            }
            for sample in group.samples
        ]

    def wait(self, seconds: float) -> None:
        """Returns when a group has ended since the last call, or after so long. Raises the first failure."""
        if self._failure is not None:
            raise self._failure
        self._ended.wait(seconds)
        self._ended.clear()

    def abandon(self) -> None:
        """Nobody waits for groups any more."""
        for made in self._made.values():
            for group in made.running:
                group.cancel()

    def validate(self, problems: Sequence[Problem], samples: int, step: int = 0) -> list[Group]:
        """`samples` completions of each problem, graded, made by the weights now loaded, which are those of `step`."""

        async def all_groups() -> list[Group]:
            seeds = [group_seed(self._seed, "validate", step, problem.id) for problem in problems]
            groups = (
                self._group(problem, samples, self._last_step, seed, self._weights.policy_id)
                for problem, seed in zip(problems, seeds, strict=True)
            )
            return await asyncio.gather(*groups)

        return self._background.wait(all_groups())

    async def _publish(self, one: Prompted, made: Made) -> None:
        try:
            group = await self._group(
                one.problem, self._group_size, one.step, one.seed, one.policy_id, self._has_greedy
            )
            if len(group.samples) < self._fewest:
                group = replace(group, samples=[])
            if self._has_greedy and group.samples:
                made.greedy[one.uid] = group.greedy
            if made.places[one.uid] == 0:
                made.shown = (one.problem.id, group)
            if group.samples:
                passed = [sample.played.episode.turns[-1].grade.passed for sample in group.samples]
                rewards = [sample.earned.before_length for sample in group.samples]
                self.evidence.add(made.places[one.uid], Evidence.of(one.index, passed, rewards))
            made.tally.add([self._tallied(sample) for sample in group.samples], group.waits)
            made.ended = time.monotonic()
            # The queue's own async client belongs to one loop; its sync one may be called from any thread.
            await asyncio.to_thread(_put, one, group, complete=len(group.samples) == self._group_size)
        except Exception as error:  # noqa: BLE001 - the main thread waits for this group, and raises what failed
            self._failure = self._failure or error
        finally:
            self._ended.set()

    async def _group(
        self, problem: Problem, size: int, step: int, seed: int, policy_id: str, has_greedy: bool = False
    ) -> Group:
        complete = partial(self._complete, policy_id)
        put = self._put(problem)
        prompt = self._tokenize(put)
        sampling = replace(self._sampling, n=size, seed=seed, stop=put.stop, temperature=self._temperature(step))
        wanted = [sampling, replace(sampling, n=1, temperature=0.0)] if has_greedy else [sampling]
        began = time.monotonic()
        drawn = await asyncio.gather(*(complete(prompt, one) for one in wanted))
        sampled = time.monotonic()
        firsts = [
            (completion, replace(one, n=1, seed=seed + completion.index))
            for one, some in zip(wanted, drawn, strict=True)
            for completion in some
        ]
        played = await asyncio.gather(
            *(self._play(complete, problem, put, prompt, first, one) for first, one in firsts)
        )
        there = iter(await self._earn(problem, [one for one in played if one is not None], step))
        samples = [None if one is None else next(there) for one in played]
        baseline = samples.pop() if has_greedy else None
        if has_greedy and baseline is None:
            return Group(prompt, [])
        waits = Waits(sampled - began, time.monotonic() - sampled)
        kept = [sample for sample in samples if sample is not None]
        return Group(prompt, kept, baseline.earned.reward if baseline else 0.0, waits)

    async def _play(
        self,
        complete: Complete,
        problem: Problem,
        put: Prompt,
        prompt: Sequence[int],
        first: Completion,
        sampling: Sampling,
    ) -> Played | None:
        """None when the engine broke an answer off, the platform could not reach a verdict, or the problem's tests can
        judge no program: that says nothing about the policy. One that ends at once has its end token, and is judged."""
        try:
            return await self._player.play(complete, problem, put, prompt, first, sampling)
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error.message
            return None

    async def _earn(self, problem: Problem, played: Sequence[Played], step: int) -> Sequence[Sample | None]:
        """None for what could not be measured, be it the platform's fault or that of a reward of one's own."""
        judged = [one.graded if self._has_steps else one.graded[-1:] for one in played]
        try:
            of_all = iter(await self._rewarding.of_group(problem, [one for some in judged for one in some], step))
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error.message
            return [None] * len(played)
        earned = [[next(of_all) for _ in some] for some in judged]
        if any(None in some for some in earned):
            self.last_fault = f"{problem.id}: a reward must be a finite number"
        return [_sample(*both) for both in zip(played, earned, strict=True)]

    def _tallied(self, sample: Sample) -> Tallied:
        played, grade = sample.played, sample.played.episode.turns[-1].grade
        repeated = fmean(map(repetition, played.answers))
        return Tallied(grade.verdict, sample.earned, repeated, sample.turns if self._has_turns else None)

    async def _complete(self, policy_id: str, prompt: Sequence[int], sampling: Sampling) -> Sequence[Completion]:
        """Completions by the weights `policy_id`, which are sent once more if rollout-service has lost them."""
        generation = await with_recovery(
            lambda: self._policy.generate(prompt, sampling, policy_id), lambda error: self._restore(error, policy_id)
        )
        return generation.completions

    async def _restore(self, error: RatchetError, policy_id: str) -> None:
        """Sends the weights again, unless another group just did. Raises `error` when the policy is there with other
        weights than these, and DataLoss when others were sent: of such nothing may be learned."""
        async with self._weights.restoring:
            loaded = await self._policy.loaded_weights()
            if loaded is None:
                sent = await asyncio.to_thread(self._weights.push)
                if sent != policy_id:
                    raise DataLoss(f"the engine was lost with the weights {policy_id}, and was given {sent}") from error
            elif loaded != policy_id:
                raise error


def _sample(played: Played, earned: Sequence[Earned | None]) -> Sample | None:
    """`earned`: of each answer, which is rewarded by what it gains over the one before, from 0; or of the last alone,
    which has all. None where one is not known."""
    known = [one for one in earned if one is not None]
    if len(known) < len(earned):
        return None
    worth = [0.0, *(one.before_length for one in known[:-1]), known[-1].reward]
    gains = [after - before for before, after in pairwise(worth)]
    return Sample(played, known[-1], [0.0] * (len(played.ends) - len(gains)) + gains)


def _put(one: Prompted, group: Group, complete: bool) -> None:
    """Stores a group in the TransferQueue in the form of verl's agent loops (trainer/ppo/v1/agent_loop_tq.py:155).

    Keys are `<uid>_<session>_<index>`; the prompt's own key then tells the replay buffer that its group has ended.
    """
    if group.samples:
        tq.kv_batch_put(
            keys=[f"{one.uid}_{session}_0" for session in range(len(group.samples))],
            fields=_fields(one.uid, group),
            tags=[
                {
                    "status": "success",
                    "prompt_len": len(group.prompt),
                    "response_len": len(sample.played.tokens),
                    "seq_len": len(group.prompt) + len(sample.played.tokens),
                    "global_steps": one.step,
                    # The weights' version in verl's terms.
                    "min_global_steps": one.version,
                    "max_global_steps": one.version,
                    "policy_id": one.policy_id,
                }
                for sample in group.samples
            ],
            partition_id="train",
        )
    tq.kv_put(key=one.uid, partition_id="train", tag={"status": "finished" if complete else "failure"})


def _fields(uid: str, group: Group) -> TensorDict:
    prompt = torch.tensor(group.prompt, dtype=torch.int64)
    rows = []
    for sample in group.samples:
        played = sample.played
        tokens = torch.tensor(played.tokens, dtype=torch.int64)
        ids = torch.cat([prompt, tokens])
        mask = torch.tensor(played.mask, dtype=torch.int64)
        scores = torch.zeros(len(tokens), dtype=torch.float32)
        scores[list(played.ends)] = torch.tensor(sample.rewards, dtype=torch.float32)
        rows.append(
            {
                "uid": uid,
                "prompts": prompt,
                "responses": tokens,
                "response_mask": mask,
                "loss_mask": mask,
                "input_ids": ids,
                "position_ids": torch.arange(len(ids)),
                "rollout_log_probs": torch.tensor(played.log_probs, dtype=torch.float32),
                "rm_scores": scores,
                "multi_modal_inputs": {},
                # What dynamic sampling compares (job/verl/algorithms.py).
                "extra_fields": {"reward_extra_info": {BEFORE_LENGTH: sample.earned.before_length}},
                "num_turns": 2 * len(played.ends),
            }
        )
    return tu.list_of_dict_to_tensordict(rows)
