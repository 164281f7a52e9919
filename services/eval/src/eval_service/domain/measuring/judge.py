"""Stage 4 of 5: judges samples as they come, and stores what was found."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.measuring.patience import PatientEnvironment
from eval_service.domain.measuring.samples import Origin, Samples
from eval_service.domain.parallel import Batches
from eval_service.domain.ports import Meter
from eval_service.domain.sample import Sample, judgement_of
from eval_service.domain.spec import RewardJudge
from ratchet_environments import Environment, EnvironmentSpec


class Judge:
    def __init__(
        self,
        environments: Callable[[EnvironmentSpec | None], Environment],
        meter: Meter,
        at_once: int = 256,
        moment: float = 0.05,
        rewarded: Callable[[Environment, RewardJudge], Environment] = lambda inner, judge: inner,
    ) -> None:
        """`environments`: what judges, by a spec. `at_once`: samples that are judged together. `moment`: seconds in
        which judgements go to the store together. `rewarded`: an environment that takes problems without tests, too."""
        self._environments = environments
        self._meter = meter
        self._at_once = at_once
        self._moment = moment
        self._rewarded = rewarded

    async def judge(self, attempt: Attempt, samples: Samples) -> Attempt:
        """With the faults that were found on the way. Raises Unavailable after all patience, InvalidArgument for a
        problem that cannot be run."""
        spec, own = attempt.spec.environment, attempt.spec.judge
        inner = self._environments(None if spec and spec.on_folders else spec)  # its samples come judged
        environment = PatientEnvironment(self._rewarded(inner, own) if own else inner, attempt.patience)

        async def store(judged: list[Sample]) -> None:
            await attempt.patience.insist(lambda: attempt.store.judge_samples(attempt.id, judged))

        batches = Batches(store, self._moment)

        async def judge(sample: Sample, origin: Origin) -> None:
            judged = sample if sample.judgement else await _judged(sample, origin, environment)
            await batches.add(judged)
            assert judged.judgement is not None
            attempt.spent.sandbox_time += judged.judgement.cpu_time or timedelta()
            self._meter.sampled(judged.judgement.verdict)
            attempt.patience.made()

        faults = await samples.each(judge, self._at_once)
        return replace(attempt, faults={**attempt.faults, **faults})


async def _judged(sample: Sample, origin: Origin, environment: PatientEnvironment) -> Sample:
    """Once its episode has ended."""
    task, text = origin.judged(sample)
    episode = await environment.step(await environment.start(task), text)
    while episode.outcome is None:
        answer = await origin.reply(sample.key, episode)
        if answer is None:
            episode = episode.cut()
            break
        sample = sample.replied(answer.text, answer.tokens, answer.truncated)
        episode = await environment.step(episode, answer.text)
    assert episode.outcome is not None
    failures = episode.turns[-1].failures
    return sample.judged(judgement_of(episode.outcome.grade, task, episode.answer, failures))
