"""Completions and their verdicts for verl: what verl calls an agent loop manager.

verl hands over a batch of prompts and goes on; each prompt then becomes a group of samples in the TransferQueue, from
where the replay buffer takes them. The work is waiting for two services, so it runs on the job's background loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_environments import Environment, Task, judge
from ratchet_kit.errors import InvalidArgument, RatchetError, Unavailable
from ratchet_policies import Completion, Sampling, with_recovery
from ratchet_problems import Problem
from trainer_service.job.background import Background
from trainer_service.job.policy import RunPolicy
from trainer_service.job.rewarding import Earned, Graded, Rewarding
from trainer_service.job.tally import Tallied, Tally, repetition


@dataclass(slots=True)  # mutable: written by the main thread between generations, read by the background loop in them
class Weights:
    """The weights that rollout-service was last given."""

    push: Callable[[], str]
    """Sends those of the trainer again, and returns their policy id."""
    policy_id: str = ""
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


class Rollouts:
    """Makes groups. `group_size` completions per training prompt are sampled at `temperature` with weights.policy_id.
    Validations are scored by the weights that the reward has at the `last_step` of the run. `tally` counts what
    training is given.

    A first failure that is not a platform fault ends all: it is kept, and raised to the trainer by `raise_failure`.
    """

    def __init__(
        self,
        *,
        background: Background,
        policy: RunPolicy,
        environment: Environment,
        weights: Weights,
        tokenize: Callable[[Problem], list[int]],
        detokenize: Callable[[Sequence[int]], str],
        problems: Sequence[Problem],
        group_size: int,
        temperature: float,
        max_tokens: int,
        rewarding: Rewarding,
        last_step: int,
    ) -> None:
        self._background = background
        self._policy = policy
        self._environment = environment
        self._weights = weights
        self._tokenize = tokenize
        self._detokenize = detokenize
        self._problems = problems
        self._group_size = group_size
        self._sampling = Sampling(temperature=temperature, top_p=1.0, max_tokens=max_tokens, logprobs=True)
        self._rewarding = rewarding
        self._last_step = last_step
        self._failure: Exception | None = None
        self.tally = Tally()
        self.last_fault = ""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's entry: starts one group per row, by its "uid" and the "index" of its problem, and returns at once."""
        step = tu.get(prompts, "global_steps")
        for uid, index in zip(prompts["uid"], prompts["index"], strict=True):
            self._background.start(self._publish(str(uid), self._problems[int(index)], int(step)))

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def validate(self, problems: Sequence[Problem], samples: int) -> list[Group]:
        """`samples` completions of each problem, graded, made by the weights now loaded."""

        async def all_groups() -> list[Group]:
            return await asyncio.gather(*(self._group(problem, samples, self._last_step) for problem in problems))

        return self._background.wait(all_groups())

    async def _publish(self, uid: str, problem: Problem, step: int) -> None:
        try:
            group = await self._group(problem, self._group_size, step)
            self.tally.add(
                [Tallied(sample.verdict, sample.earned, repetition(sample.tokens)) for sample in group.samples]
            )
            # The queue's own async client belongs to one loop; its sync one may be called from any thread.
            await asyncio.to_thread(_put, uid, group, step, complete=len(group.samples) == self._group_size)
        except Exception as error:  # noqa: BLE001 - the main thread waits for this group, and raises what failed
            self._failure = self._failure or error

    async def _group(self, problem: Problem, size: int, step: int) -> Group:
        prompt = self._tokenize(problem)
        completions = await self._complete(prompt, size)
        graded = await asyncio.gather(*(self._grade(problem, completion) for completion in completions))
        known = [(completion, one) for completion, one in zip(completions, graded, strict=True) if one is not None]
        earned = await self._earn(problem, [one for _, one in known], step)
        samples = [
            Sample(completion.token_ids, completion.log_probs, one.grade.verdict, what)
            for (completion, one), what in zip(known, earned, strict=True)
            if what is not None
        ]
        return Group(prompt, samples)

    async def _grade(self, problem: Problem, completion: Completion) -> Graded | None:
        """None when the platform could not reach a verdict, or the problem's tests can judge no program: that says
        nothing about the completion."""
        try:
            answer = self._detokenize(completion.token_ids)
            return Graded(answer, (await judge(self._environment, Task.of(problem), answer)).grade)
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

    async def _complete(self, prompt: Sequence[int], size: int) -> Sequence[Completion]:
        """`size` completions by the trainer's weights, which are pushed once more if rollout-service has lost them."""
        sampling = replace(self._sampling, n=size)
        generation = await with_recovery(
            lambda: self._policy.generate(prompt, sampling, self._weights.policy_id), self._restore
        )
        return generation.completions

    async def _restore(self, error: RatchetError) -> None:
        """Pushes the trainer's weights again, unless another group just did. Raises `error` when the policy is there
        with other weights: somebody else's, on which nothing may be trained."""
        async with self._weights.restoring:
            loaded = await self._policy.loaded_weights()
            if loaded is None:
                self._weights.policy_id = await asyncio.to_thread(self._weights.push)
            elif loaded != self._weights.policy_id:
                raise error


def _put(uid: str, group: Group, step: int, complete: bool) -> None:
    """Stores a group in the TransferQueue in the form of verl's agent loops (trainer/ppo/v1/agent_loop_tq.py:155).

    Keys are `<uid>_<session>_<index>`; the prompt's own key then tells the replay buffer that its group has ended.
    """
    if group.samples:
        tq.kv_batch_put(
            keys=[f"{uid}_{session}_0" for session in range(len(group.samples))],
            fields=_fields(uid, group),
            tags=[
                {
                    "status": "success",
                    "prompt_len": len(group.prompt),
                    "response_len": len(sample.tokens),
                    "seq_len": len(group.prompt) + len(sample.tokens),
                    "global_steps": step,
                    # The weights' version in verl's terms: those after the previous step.
                    "min_global_steps": step - 1,
                    "max_global_steps": step - 1,
                }
                for sample in group.samples
            ],
            partition_id="train",
        )
    tq.kv_put(key=uid, partition_id="train", tag={"status": "finished" if complete else "failure"})


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
                "num_turns": 2,
            }
        )
    return tu.list_of_dict_to_tensordict(rows)
