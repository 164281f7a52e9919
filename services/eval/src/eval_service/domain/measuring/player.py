"""Samples that are episodes of a harness: drawn and judged as one."""

import asyncio

from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.measuring.sampler import Lost, Wanted
from eval_service.domain.ports import Answer, LoadedPolicy, Played
from eval_service.domain.sample import Judgement, Sample, SampleKey, failure_of
from ratchet_environments import Episode, Task
from ratchet_kit.errors import FailedPrecondition
from ratchet_policies import LOST, Sampling, TextPrompt


class Player:
    """For one attempt, as long as the policy is loaded. In the place of a `Sampler`."""

    def __init__(self, attempt: Attempt, policy: LoadedPolicy, at_once: int) -> None:
        self._attempt = attempt
        self._policy = policy
        self._slots = asyncio.Semaphore(at_once)

    def wanted(self, key: SampleKey) -> Wanted:
        """An episode is nobody else's: no request asks for the same again."""
        spec, seed = self._attempt.spec, self._attempt.evaluation.seed_of(key.problem_id, key.index, 0)
        sampling = Sampling(temperature=spec.temperature, max_tokens=spec.max_tokens, seed=seed)
        prompt = TextPrompt(self._attempt.sets.problems[key.problem].prompt)
        return Wanted(key, prompt, sampling, f"{self._attempt.id} {key.benchmark} {key.problem_id} {key.index}")

    async def draw(self, wanted: Wanted) -> Sample:
        """With its judgement. Raises Lost, InvalidArgument, Unavailable after all patience."""
        environment = self._attempt.spec.environment
        assert environment is not None
        sets = self._attempt.sets
        problem = sets.problems[wanted.key.problem]
        folder = await asyncio.to_thread(sets.set_of(wanted.key.problem).folder, problem)

        async def play() -> Played:
            try:
                return await self._policy.play(environment, folder, wanted.sampling)
            except LOST as error:
                raise Lost(str(error)) from error

        async with self._slots:
            played = await self._attempt.patience.insist(play)
        return Sample(
            wanted.key,
            played.said,
            self._policy.policy_id,
            tokens=played.tokens,
            generation_time=played.wall_time,
            judgement=judgement_of_episode(played),
            turns=played.calls,
            tool_errors=played.tool_errors,
            recorded=bool(played.record),
            record=played.record,
        )

    def judged(self, sample: Sample) -> tuple[Task, str]:
        raise FailedPrecondition(f"the episode of {sample.key.problem_id} was judged as it was played")

    async def reply(self, key: SampleKey, episode: Episode) -> Answer | None:
        raise FailedPrecondition(f"the harness of {key.problem_id} asks the model itself")


def judgement_of_episode(played: Played) -> Judgement:
    verdict = "PASSED" if played.passed else played.limit or "FAILED"
    detail = f"{played.reason}; {played.calls} {'answer' if played.calls == 1 else 'answers'} of the model"
    failure = None if played.passed else failure_of(verdict)
    return Judgement(verdict, int(played.passed), 1, detail, played.forgeable, failure, played.cpu_time)
