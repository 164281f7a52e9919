"""Samples of one policy: what it is asked, and what it answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.ports import Answer, LoadedPolicy, Put
from eval_service.domain.sample import Sample, SampleKey, request_of
from eval_service.domain.spec import Form
from ratchet_environments import Episode, Task
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.times import Clock
from ratchet_policies import LOST, ChatPrompt, Prompt, Sampling, TextPrompt
from ratchet_problems import Message

TOO_LONG = ("prompt.chat", "prompt.text")
"""The fields that rollout-service names where a prompt has no room in the model."""


class Lost(Exception):
    """The policy is gone or has other weights: open it again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A sample that is to be drawn."""

    key: SampleKey
    prompt: Prompt
    sampling: Sampling
    request: str
    """See `request_of`."""


def has_no_room(error: InvalidArgument) -> bool:
    """The model has no room for the prompt."""
    return [fault.field in TOO_LONG for fault in error.violations] == [True]


class Sampler:
    """For one attempt, as long as the policy is loaded. `samples.Origin`."""

    def __init__(self, attempt: Attempt, policy: LoadedPolicy, clock: Clock, at_once: int) -> None:
        self._attempt = attempt
        self._policy = policy
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)

    def wanted(self, key: SampleKey) -> Wanted:
        """Raises InvalidArgument for a form, or shots, that the set does not have."""
        put = self._put(key)
        prompt = self._chat(put.messages) if put.messages else TextPrompt(put.text)
        sampling = self._sampling(key, put.stop)
        identity = f"{self._policy.policy_id} {self._policy.settings_id}"
        return Wanted(key, prompt, sampling, request_of(identity, prompt, sampling))

    def judged(self, sample: Sample) -> tuple[Task, str]:
        """The task that judges a sample, and the answer that is judged. A chat's completion is the answer; one that
        goes on from a text is joined to it as the set's official evaluator does."""
        put = self._put(sample.key)
        if put.messages:
            return self._attempt.sets.task(sample.key.problem, put.messages), sample.completion
        return self._attempt.sets.task(sample.key.problem, is_program=True), self._attempt.sets.program(sample)

    async def draw(self, wanted: Wanted) -> Sample:
        """Raises Lost, InvalidArgument, Unavailable after all patience."""
        async with self._slots:
            start = self._clock.now()
            answer = await self._complete(wanted.prompt, wanted.sampling)
            taken = self._clock.now() - start
        return Sample(
            wanted.key,
            answer.text,
            self._policy.policy_id,
            request=wanted.request,
            tokens=answer.tokens,
            truncated=answer.truncated,
            generation_time=taken,
            turns=1,
        )

    async def reply(self, key: SampleKey, episode: Episode) -> Answer | None:
        """The next answer of the sample's episode; None where the model has no room for one."""
        async with self._slots:
            try:
                return await self._complete(self._chat(episode.messages), self._sampling(key, turn=len(episode.turns)))
            except InvalidArgument as error:
                if not has_no_room(error):
                    raise
                return None

    async def _complete(self, prompt: Prompt, sampling: Sampling) -> Answer:
        async def complete() -> Answer:
            try:
                return await self._policy.complete(prompt, sampling)
            except LOST as error:
                raise Lost(str(error)) from error

        return await self._attempt.patience.insist(complete)

    def _chat(self, messages: Sequence[Message]) -> ChatPrompt:
        return ChatPrompt(tuple(messages), chat_template=self._attempt.spec.chat_template)

    def _put(self, key: SampleKey) -> Put:
        prompting, sets = self._attempt.spec.prompting, self._attempt.sets
        problem = sets.problems[key.problem]
        return sets.set_of(key.problem).put(problem, prompting.form or Form.CHAT, prompting.shots)

    def _sampling(self, key: SampleKey, stop: tuple[str, ...] = (), turn: int = 0) -> Sampling:
        spec, seed = self._attempt.spec, self._attempt.evaluation.seed_of(key.problem_id, key.index, turn)
        return Sampling(temperature=spec.temperature, max_tokens=spec.max_tokens, seed=seed, stop=stop)
