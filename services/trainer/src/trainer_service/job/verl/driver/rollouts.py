"""Completions and their verdicts for verl: what verl calls an agent loop manager.

verl hands over a batch of prompts and goes on; each prompt then becomes a group of samples in the TransferQueue, from
where the replay buffer takes them. The work is waiting for two services, so it runs on the job's background loop.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from statistics import fmean

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_benchmarks import Prompt
from ratchet_environments import Environment, Task, judge
from ratchet_kit.errors import DataLoss, InvalidArgument, RatchetError, Unavailable
from ratchet_policies import Completion, FinishReason, Generation, Sampling, with_recovery
from ratchet_problems import Problem
from trainer_service.job.background import Background
from trainer_service.job.policy import RunPolicy
from trainer_service.job.rewarding import Earned, Graded, Rewarding
from trainer_service.job.seeds import group_seed
from trainer_service.job.tally import Tallied, Tally, repetition
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
    """A completion with what it earns. Log-probs are natural, one per token."""

    tokens: Sequence[int]
    log_probs: Sequence[float]
    verdict: str
    earned: Earned


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one prompt, without those that the platform failed."""

    prompt: Sequence[int]
    samples: Sequence[Sample]
    greedy: float = 0.0
    """The reward of its greedy completion, where there is one."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Completions that are not judged yet."""

    put: Prompt
    prompt: Sequence[int]
    completions: Sequence[Completion]
    policy_id: str
    """Of the weights that made them, as the engine says."""
    has_greedy: bool
    """The last one is."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """A training prompt."""

    uid: str
    problem: Problem
    step: int
    """That learns from it."""
    version: int
    """The step after which the trainer had the weights that answer it. Its samples are stale where that is not the one
    before."""


@dataclass(slots=True)  # mutable: written by the background loop, read by the main thread once its step learns from it
class Made:
    """What is made for a step."""

    tally: Tally = field(default_factory=Tally)
    greedy: dict[str, float] = field(default_factory=dict)
    """The reward of the greedy completion of each prompt that has one, by its uid."""
    places: dict[str, int] = field(default_factory=dict)
    drawn: Counter[str] = field(default_factory=Counter)
    drawing: list[Future[Drawn]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    """When its last group was judged; seconds, of the same clock."""

    @property
    def greedy_mean(self) -> float:
        return fmean(self.greedy.values()) if self.greedy else 0.0

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended - self.began)


class Rollouts:
    """Makes groups. `group_size` completions per training prompt are sampled with weights.policy_id, at the
    `temperature` of the step. Validations are sampled at the temperature, and scored by the weights of the reward, that
    there are at the `last_step` of the run. A group of which fewer than `fewest`
    samples are left teaches nothing: a lone one would be its own baseline. `has_greedy`: each group has one completion
    more, the greedy one, whose reward is the baseline of the others; without it they teach nothing.

    A first failure that is not a platform fault ends all: it is kept, and raised to the trainer by `raise_failure`.
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
        problems: Sequence[Problem],
        group_size: int,
        fewest: int = 1,
        seed: int = 0,
        temperature: Callable[[int], float],
        max_tokens: int,
        rewarding: Rewarding,
        last_step: int,
        has_greedy: bool = False,
    ) -> None:
        self._background = background
        self._policy = policy
        self._environment = environment
        self._weights = weights
        self._put = put
        self._tokenize = tokenize
        self._detokenize = detokenize
        self._problems = problems
        self._group_size = group_size
        self._fewest = fewest
        self._seed = seed
        self._has_greedy = has_greedy
        self._made: dict[int, Made] = {}
        self._steps: dict[str, int] = {}
        self._temperature = temperature
        self._sampling = Sampling(top_p=1.0, max_tokens=max_tokens, logprobs=True)
        self._rewarding = rewarding
        self._last_step = last_step
        self._failure: Exception | None = None
        self.last_fault = ""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's entry: starts one group per row, by its "uid" and the "index" of its problem, and returns at once."""
        step = int(tu.get(prompts, "global_steps"))
        made = self._made.setdefault(step, Made())
        for uid, index in zip(prompts["uid"], prompts["index"], strict=True):
            problem = self._problems[int(index)]
            made.places[str(uid)] = len(made.places)
            self._steps[str(uid)] = step
            seed = group_seed(self._seed, "train", step, problem.id, made.drawn[problem.id])
            made.drawn[problem.id] += 1
            one = Prompted(str(uid), problem, step, version=self._weights.step)
            drawing = self._background.start(
                self._draw(problem, self._group_size, step, seed, self._weights.policy_id, self._has_greedy)
            )
            made.drawing.append(drawing)
            self._background.start(self._publish(one, made, drawing))

    def wait_drawn(self) -> None:
        """Until no training prompt is with the engine, though completions may still be judged. Raises what ended it."""
        for made in self._made.values():
            for drawing in made.drawing:
                drawing.result()

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

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def validate(self, problems: Sequence[Problem], samples: int, step: int = 0) -> list[Group]:
        """`samples` completions of each problem, graded, made by the weights now loaded, which are those of `step`."""

        async def one_group(problem: Problem, seed: int) -> Group:
            policy_id, last = self._weights.policy_id, self._last_step
            drawn = await self._draw(problem, samples, last, seed, policy_id, has_greedy=False)
            return await self._judge(problem, drawn, last)

        async def all_groups() -> list[Group]:
            seeds = [group_seed(self._seed, "validate", step, problem.id) for problem in problems]
            return await asyncio.gather(*map(one_group, problems, seeds))

        return self._background.wait(all_groups())

    async def _publish(self, one: Prompted, made: Made, drawing: Future[Drawn]) -> None:
        try:
            drawn = await asyncio.wrap_future(drawing)
            group = await self._judge(one.problem, drawn, one.step)
            if len(group.samples) < self._fewest:
                group = replace(group, samples=[])
            if drawn.has_greedy and group.samples:
                made.greedy[one.uid] = group.greedy
            made.tally.add(
                [Tallied(sample.verdict, sample.earned, repetition(sample.tokens)) for sample in group.samples]
            )
            made.ended = time.monotonic()
            complete = len(group.samples) == self._group_size
            # The queue's own async client belongs to one loop; its sync one may be called from any thread.
            await asyncio.to_thread(_put, one, group, drawn.policy_id, complete)
        except Exception as error:  # noqa: BLE001 - the main thread waits for this group, and raises what failed
            self._failure = self._failure or error

    async def _draw(self, problem: Problem, size: int, step: int, seed: int, policy_id: str, has_greedy: bool) -> Drawn:
        """Completions of `problem` as they are sampled at `step`, by the weights `policy_id`."""
        put = self._put(problem)
        prompt = self._tokenize(put)
        sampling = replace(self._sampling, n=size, seed=seed, stop=put.stop, temperature=self._temperature(step))
        wanted = [sampling, replace(sampling, n=1, temperature=0.0)] if has_greedy else [sampling]
        made = await asyncio.gather(*(self._complete(prompt, each, policy_id) for each in wanted))
        completions = [completion for generation in made for completion in generation.completions]
        return Drawn(put, prompt, completions, made[0].policy_id, has_greedy)

    async def _judge(self, problem: Problem, drawn: Drawn, step: int) -> Group:
        graded = await asyncio.gather(*(self._grade(problem, drawn.put, each) for each in drawn.completions))
        earned = await self._earn(problem, [one for one in graded if one is not None], step)
        by_place = iter(earned)
        rewarded = [None if one is None else next(by_place) for one in graded]
        baseline = rewarded.pop() if drawn.has_greedy else None
        if drawn.has_greedy and baseline is None:
            return Group(drawn.prompt, [])
        samples = [
            Sample(completion.token_ids, completion.log_probs, one.grade.verdict, what)
            # all but the greedy one
            for completion, one, what in zip(drawn.completions, graded, rewarded, strict=False)
            if one is not None and what is not None
        ]
        return Group(drawn.prompt, samples, baseline.reward if baseline else 0.0)

    async def _grade(self, problem: Problem, put: Prompt, completion: Completion) -> Graded | None:
        """None when the engine broke it off, the platform could not reach a verdict, or the problem's tests can judge
        no program: that says nothing about the policy. One that ends at once has its end token, and is judged."""
        if completion.finish_reason is FinishReason.ABORTED or not completion.token_ids:
            self.last_fault = (
                f"{problem.id}: the engine broke a completion off after {len(completion.token_ids)} tokens"
            )
            return None
        try:
            answer = put.cut(self._detokenize(completion.token_ids))
            grade = (await judge(self._environment, Task.of(problem), answer)).grade
            return Graded(answer, grade, len(completion.token_ids))
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error.message
            return None

    async def _earn(self, problem: Problem, graded: Sequence[Graded], step: int) -> Sequence[Earned | None]:
        """None for what could not be measured, be it the platform's fault or that of a reward of one's own."""
        try:
            earned = await self._rewarding.of_group(problem, graded, step)
        except (Unavailable, InvalidArgument) as error:
            self.last_fault = error.message
            return [None] * len(graded)
        if None in earned:
            self.last_fault = f"{problem.id}: a reward must be a finite number"
        return earned

    async def _complete(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
        """Completions by the weights `policy_id`, which are sent once more if rollout-service has lost them."""
        return await with_recovery(
            lambda: self._policy.generate(prompt, sampling, policy_id), lambda error: self._restore(error, policy_id)
        )

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


def _put(one: Prompted, group: Group, policy_id: str, complete: bool) -> None:
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
                    "response_len": len(sample.tokens),
                    "seq_len": len(group.prompt) + len(sample.tokens),
                    "global_steps": one.step,
                    # The weights' version in verl's terms.
                    "min_global_steps": one.version,
                    "max_global_steps": one.version,
                    "policy_id": policy_id,
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
        tokens = torch.tensor(sample.tokens, dtype=torch.int64)
        ids = torch.cat([prompt, tokens])
        mask = torch.ones_like(tokens)
        scores = torch.zeros(len(tokens), dtype=torch.float32)
        scores[-1] = sample.earned.reward
        rows.append(
            {
                "uid": uid,
                "prompts": prompt,
                "responses": tokens,
                "response_mask": mask,
                "loss_mask": mask,
                "input_ids": ids,
                "position_ids": torch.arange(len(ids)),
                "rollout_log_probs": torch.tensor(sample.log_probs, dtype=torch.float32),
                "rm_scores": scores,
                "multi_modal_inputs": {},
                # What dynamic sampling compares (job/verl/algorithms.py).
                "extra_fields": {"reward_extra_info": {BEFORE_LENGTH: sample.earned.before_length}},
                "num_turns": 2,
            }
        )
    return tu.list_of_dict_to_tensordict(rows)
