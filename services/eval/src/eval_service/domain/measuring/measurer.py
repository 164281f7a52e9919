"""Measures an evaluation, in five stages: load, examine, draw, judge, score."""

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.measuring.draw import Drawer
from eval_service.domain.measuring.examine import Examiner
from eval_service.domain.measuring.judge import Judge
from eval_service.domain.measuring.load import Loader
from eval_service.domain.measuring.score import final_score
from eval_service.domain.score import Score


class Measurer:
    def __init__(self, loader: Loader, examiner: Examiner, drawer: Drawer, judge: Judge) -> None:
        self._loader = loader
        self._examiner = examiner
        self._drawer = drawer
        self._judge = judge

    async def run(self, evaluation: Evaluation, owner: str) -> Score:
        """The score of an evaluation that `owner` holds, once all its samples are judged.

        Resumable: what is stored already is neither drawn nor judged again. Raises a RatchetError, whose text is the
        reason, when the evaluation cannot be made: a fault of the platform never counts as a wrong answer.
        """
        attempt = await self._loader.load(evaluation, owner)
        attempt = await self._examiner.examine(attempt)
        samples = self._drawer.draw(attempt)
        attempt = await self._judge.judge(attempt, samples)
        return await final_score(attempt)
