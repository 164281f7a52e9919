"""How good an answer was: scored by the application, or by the tests of a problem."""

from gateway_service.domain.traffic.ports import CompletionLog, Grader
from gateway_service.domain.traffic.record import ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults


class Feedback:
    """Attaches scores to completions; a release's quality is their mean."""

    def __init__(self, recorder: Recorder, store: CompletionLog, grader: Grader) -> None:
        self._recorder = recorder
        self._store = store
        self._grader = grader

    async def score(self, completion_id: str, score: float) -> float:
        """Raises InvalidArgument for a score outside [0, 1], NotFound for an unknown completion."""
        faults = Faults()
        faults.bounds("score", score, at_least=0.0, at_most=1.0)
        faults.raise_if_any()
        await self._recorder.flush()
        await self._store.set_score(completion_id, score, None)
        return score

    async def grade(self, completion_id: str, problem: ProblemRef) -> float:
        """The mean score of the completion's choices by the problem's tests. A second call returns the same score.

        Raises NotFound for an unknown completion or problem, FailedPrecondition when its text is no longer kept,
        Unavailable when the sandbox fails: nothing is stored then.
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
