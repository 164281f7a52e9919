"""How good an answer was: scored by the application, or by the tests of a problem."""

from gateway_service.domain.traffic.ports import CompletionLog, Grader
from gateway_service.domain.traffic.record import ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once


class Feedback:
    """Attaches scores to completions; a release's quality is their mean."""

    def __init__(self, recorder: Recorder, store: CompletionLog, grader: Grader) -> None:
        self._recorder = recorder
        self._store = store
        self._grader = grader

    async def score(self, completion_id: str, score: float, request_id: str = "") -> float:
        """Idempotent under `request_id`. A later score replaces an earlier one.

        Raises InvalidArgument for a score outside [0, 1], NotFound for an unknown completion, AlreadyExists when the
        request id was used for other feedback.
        """
        faults = Faults()
        faults.bounds("score", score, at_least=0.0, at_most=1.0)
        faults.raise_if_any()
        request = Request.of(request_id, completion_id, score)
        await self._recorder.flush()
        return await once(
            lambda: self._store.find_score(request),
            lambda: self._store.set_score(completion_id, score, None, request),
        )

    async def grade(self, completion_id: str, problem: ProblemRef, request_id: str = "") -> float:
        """The mean score of the completion's choices by the problem's tests. A second call returns the same score.

        Raises NotFound for an unknown completion or problem, FailedPrecondition when its text is no longer kept,
        Unavailable when the sandbox fails: nothing is stored then. AlreadyExists as `score`.
        """
        request = Request.of(request_id, completion_id, problem.problem_set, problem.problem_id)
        await self._recorder.flush()

        async def grade() -> float:
            record = await self._store.get(completion_id)
            if record.score is not None and record.problem == problem:
                return record.score
            if not record.texts:
                raise FailedPrecondition(
                    f"the text of completion {completion_id} is not kept: too old, too long or scored"
                )
            scores = await self._grader.grade(problem, record.texts)
            return await self._store.set_score(completion_id, sum(scores) / len(scores), problem, request)

        return await once(lambda: self._store.find_score(request), grade)
