"""Judges samples, and stores what was found."""

from eval_service.domain.measuring.patience import PatientEnvironment
from eval_service.domain.measuring.sampler import Drawing
from eval_service.domain.parallel import Batches
from eval_service.domain.ports import EvaluationStore, Meter
from eval_service.domain.sample import Sample, judgement_of
from eval_service.domain.sets import Sets
from ratchet_environments import Task
from ratchet_kit.errors import FailedPrecondition


class Judging:
    """For one evaluation."""

    def __init__(
        self,
        evaluation_id: str,
        sets: Sets,
        store: EvaluationStore,
        environment: PatientEnvironment,
        meter: Meter,
        moment: float,
    ) -> None:
        """`moment`: seconds in which what is found goes to the store together."""
        self._sets = sets
        self._environment = environment
        self._meter = meter
        patience = self._patience = environment.patience

        async def add(samples: list[Sample]) -> None:
            await patience.insist(lambda: store.add_samples(evaluation_id, samples))

        async def judge(samples: list[Sample]) -> None:
            await patience.insist(lambda: store.judge_samples(evaluation_id, samples))

        self._drawn = Batches(add, moment)
        self._judged = Batches(judge, moment)

    async def keep(self, sample: Sample) -> None:
        """Stores a sample that was drawn: whatever happens now, it is not drawn again."""
        await self._drawn.add(sample)

    async def judge(self, sample: Sample, drawing: Drawing | None = None) -> None:
        """Judges a sample that is stored. `drawing`: where it came from, and where its episode goes on; None where it
        was imported. Raises Unavailable after all patience, InvalidArgument for a problem that cannot be run."""
        task, text = drawing.judged(sample) if drawing else self._imported(sample)
        episode = await self._environment.step(await self._environment.start(task), text)
        while episode.outcome is None:
            if drawing is None:
                raise FailedPrecondition(f"one answer to {task.problem.id} does not end its episode")
            answer = await drawing.reply(sample.key, episode)
            if answer is None:
                episode = episode.cut()
                break
            sample = sample.replied(answer.text, answer.tokens, answer.truncated)
            episode = await self._environment.step(episode, answer.text)
        assert episode.outcome is not None
        judgement = judgement_of(episode.outcome.grade, task, episode.answer)
        await self._judged.add(sample.judged(judgement))
        self._meter.sampled(judgement.verdict)
        self._patience.made()

    def _imported(self, sample: Sample) -> tuple[Task, str]:
        return self._sets.task(sample.key.problem, is_program=True), self._sets.program(sample)
