"""How good an answer was: told by the application, or found by the tests of a problem."""

import math

from gateway_service.domain.ports import CompletionLog, Grader
from gateway_service.domain.recording import Recorder
from gateway_service.domain.traffic import ProblemRef
from ratchet_kit.errors import FailedPrecondition, FieldViolation, InvalidArgument


class Feedback:
    """Attaches scores to completions; a release's quality is their mean."""

    def __init__(self, recorder: Recorder, store: CompletionLog, grader: Grader) -> None:
        self._recorder = recorder
        self._store = store
        self._grader = grader

    async def score(self, completion_id: str, score: float) -> float:
        """Raises InvalidArgument for a score outside [0, 1], NotFound for an unknown completion."""
        if not (math.isfinite(score) and 0 <= score <= 1):
            raise InvalidArgument("a score is in [0, 1]", [FieldViolation("score", "must be in [0, 1]")])
        await self._recorder.flush()
        await self._store.set_score(completion_id, score, None)
        return score

    async def grade(self, completion_id: str, problem: ProblemRef) -> float:
        """The mean score of the completion's choices by the problem's tests; asked again, the same score.

        Raises NotFound for an unknown completion or problem, FailedPrecondition when its text is not kept any more,
        Unavailable when the sandbox cannot say: nothing is stored then.
        """
        await self._recorder.flush()
        record = await self._store.get(completion_id)
        if record.score is not None and record.problem == problem:
            return record.score
        if not record.texts:
            raise FailedPrecondition(f"the text of completion {completion_id} is not kept: too old, too long or scored")
        scores = await self._grader.grade(problem, record.texts)
        score = sum(scores) / len(scores)
        await self._store.set_score(completion_id, score, problem)
        return score
