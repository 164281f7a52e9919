"""How good an answer was: scored by the application or by the tests of a problem, and measured by the application."""

from collections.abc import Sequence
from datetime import datetime

from gateway_service.domain.keys.caller import caller
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics, check_metrics, content
from gateway_service.domain.traffic.ports import NO_SCORE, CompletionLog, ExchangeStore, Grader
from gateway_service.domain.traffic.record import CompletionRecord, ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once
from ratchet_kit.names import check_model_name


class Feedback:
    """Attaches scores and metrics to completions; a release's quality is the mean of the scores."""

    def __init__(self, recorder: Recorder, store: CompletionLog, exchanges: ExchangeStore, grader: Grader) -> None:
        self._recorder = recorder
        self._store = store
        self._exchanges = exchanges
        self._grader = grader

    async def score(
        self, completion_id: str, score: float, request_id: str = "", metrics: Metrics = NO_METRICS
    ) -> float:
        """Idempotent under `request_id`, of which each key has its own. A later score replaces an earlier one.

        Raises InvalidArgument for a score outside [0, 1] and for what is no metric, NotFound for an unknown completion,
        PermissionDenied for another key's, FailedPrecondition where it would have too many metrics, AlreadyExists when
        the request id was used for other feedback.
        """
        faults = Faults()
        faults.bounds("score", score, at_least=0.0, at_most=1.0)
        check_metrics(faults, metrics)
        faults.raise_if_any()
        request = Request.of(request_id, completion_id, score, *content(metrics), owner=caller().id)

        async def store() -> float:
            await self._own(completion_id)
            return await self._store.set_score(completion_id, score, None, request, metrics)

        return await once(lambda: self._store.find_score(request), store)

    async def measure(self, completion_id: str, metrics: Metrics, request_id: str = "") -> float:
        """Metrics alone; the score that they are is none, 0. Raises as `score`."""
        faults = Faults()
        check_metrics(faults, metrics)
        faults.raise_if_any()
        request = Request.of(request_id, completion_id, "metrics", *content(metrics), owner=caller().id)

        async def store() -> float:
            await self._own(completion_id)
            await self._store.add_metrics(completion_id, metrics, request)
            return NO_SCORE

        return await once(lambda: self._store.find_score(request), store)

    async def grade(
        self, completion_id: str, problem: ProblemRef, request_id: str = "", metrics: Metrics = NO_METRICS
    ) -> float:
        """The mean score of the completion's choices by the problem's tests. A second call returns the same score.

        Raises NotFound for an unknown completion or problem, FailedPrecondition when its text is no longer kept,
        Unavailable when the sandbox fails: nothing is stored then. What else `score` raises.
        """
        faults = Faults()
        check_metrics(faults, metrics)
        faults.raise_if_any()
        parts = (problem.problem_set, problem.problem_id, *content(metrics))
        request = Request.of(request_id, completion_id, *parts, owner=caller().id)

        async def grade() -> float:
            record = await self._own(completion_id)
            if record.score is not None and record.problem == problem:
                if metrics:
                    return await self._store.set_score(completion_id, record.score, problem, request, metrics)
                return record.score
            texts = record.texts or await self._exchanged(completion_id)
            if not texts:
                raise FailedPrecondition(
                    f"the text of completion {completion_id} is not kept: too old, too long or scored"
                )
            scores = await self._grader.grade(problem, texts)
            score = sum(scores) / len(scores)
            return await self._store.set_score(completion_id, score, problem, request, metrics)

        return await once(lambda: self._store.find_score(request), grade)

    async def count(self, model: str, since: datetime | None = None) -> int:
        """How many answers of the model have a score: those to requests that came since then.

        Raises InvalidArgument for what is no name of a model.
        """
        faults = Faults()
        faults.read("model", check_model_name, model)
        faults.raise_if_any()
        await self._recorder.flush()
        return await self._store.scored(model, since)

    async def _own(self, completion_id: str) -> CompletionRecord:
        """Raises NotFound, PermissionDenied for another key's."""
        record = await self._recorder.stored(completion_id)
        caller().require_own(completion_id, record.key_id)
        return record

    async def _exchanged(self, completion_id: str) -> Sequence[str]:
        """The answers of a key that keeps its traffic."""
        kept = await self._exchanges.some([completion_id])
        return [answer.content for exchange in kept for answer in exchange.material.answers]
