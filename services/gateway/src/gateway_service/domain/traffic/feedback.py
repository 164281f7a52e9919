"""Feedback on an answer: a score by the application or by the tests of a problem, the text that was used in its place,
the better one of two, numbers that the application measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeAlias

from gateway_service.domain.keys.caller import caller
from gateway_service.domain.traffic.exchange import Accepted, Choice
from gateway_service.domain.traffic.exchanges import Exchanges
from gateway_service.domain.traffic.metrics import Metrics, check_metrics, content
from gateway_service.domain.traffic.ports import NO_SCORE, CompletionLog, ExchangeStore, Grader
from gateway_service.domain.traffic.record import MAX_KEPT_TEXT, CompletionRecord, ProblemRef
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once
from ratchet_kit.names import check_model_name


@dataclass(frozen=True, slots=True)
class Score:
    """By the application. A thumb is one, too."""

    value: float
    """In [0, 1], 1 is best."""


Source: TypeAlias = Score | ProblemRef | Accepted | Choice | None
"""A problem: its tests give the score. None: there are metrics alone."""


@dataclass(frozen=True, slots=True)
class FeedbackRequest:
    """Feedback on one completion."""

    completion_id: str
    source: Source
    metrics: Metrics = field(default_factory=dict)
    """Beside the source."""
    request_id: str = ""
    """Idempotent under it; each key has its own."""

    def check(self) -> None:
        """Raises InvalidArgument that names every fault there is."""
        faults = Faults()
        match self.source:
            case Score(value):
                faults.bounds("score", value, at_least=0.0, at_most=1.0)
            case Accepted(text):
                faults.required("accepted.text", text.strip())
                most = f"must have at most {MAX_KEPT_TEXT} characters"
                faults.unless(len(text) <= MAX_KEPT_TEXT, "accepted.text", most)
        check_metrics(faults, self.metrics)
        faults.raise_if_any()

    @property
    def content(self) -> Sequence[object]:
        """Tells it from other feedback under the same request id. Stored requests have it: it stays as it is."""
        return (*_content(self.source), *content(self.metrics))


def _content(source: Source) -> Sequence[object]:
    match source:
        case Score(value):
            return (value,)
        case ProblemRef(problem_set, problem_id):
            return (problem_set, problem_id)
        case Accepted(text, index):
            return ("accepted", text, index)
        case Choice(index, over_id, over_index):
            return ("choice", index, over_id, over_index)
        case None:
            return ("metrics",)


class Feedback:
    """Attaches feedback to completions; a release's quality is the mean of the scores."""

    def __init__(
        self, recorder: Recorder, store: CompletionLog, kept: ExchangeStore, exchanges: Exchanges, grader: Grader
    ) -> None:
        self._recorder = recorder
        self._store = store
        self._kept = kept
        self._exchanges = exchanges
        self._grader = grader

    async def give(self, feedback: FeedbackRequest) -> float:
        """The score that it says: of tests the mean of the completion's choices, 0 for feedback that says none. A later
        score replaces an earlier one.

        Raises InvalidArgument as `FeedbackRequest.check`, NotFound for an unknown completion or problem,
        PermissionDenied for another key's, FailedPrecondition where there would be too many metrics, or where the text
        that is needed is not kept, Unavailable when the sandbox fails: nothing is stored then. AlreadyExists when the
        request id was used for other feedback. For an accepted text and a choice as `Exchanges.accept` and `choose`.
        """
        feedback.check()
        request = Request.of(feedback.request_id, feedback.completion_id, *feedback.content, owner=caller().id)
        return await once(partial(self._store.find_score, request), partial(self._keep, feedback, request))

    async def count(self, model: str, since: datetime | None = None) -> int:
        """How many answers of the model have a score: those to requests that came since then.

        Raises InvalidArgument for what is no name of a model.
        """
        faults = Faults()
        faults.read("model", check_model_name, model)
        faults.raise_if_any()
        await self._recorder.flush()
        return await self._store.scored(model, since)

    async def _keep(self, feedback: FeedbackRequest, request: Request) -> float:
        completion_id, metrics = feedback.completion_id, feedback.metrics
        match feedback.source:
            case Score(value):
                await self._own(completion_id)
                return await self._store.set_score(completion_id, value, None, request, metrics)
            case ProblemRef() as problem:
                return await self._grade(completion_id, problem, request, metrics)
            case Accepted() as accepted:
                await self._exchanges.accept(completion_id, accepted, request, metrics)
            case Choice() as choice:
                await self._exchanges.choose(completion_id, choice, request, metrics)
            case None:
                await self._own(completion_id)
                await self._store.add_metrics(completion_id, metrics, request)
        return NO_SCORE

    async def _grade(self, completion_id: str, problem: ProblemRef, request: Request, metrics: Metrics) -> float:
        """By the problem's tests; a second call returns the same score."""
        record = await self._own(completion_id)
        if record.score is not None and record.problem == problem:
            if metrics:
                return await self._store.set_score(completion_id, record.score, problem, request, metrics)
            return record.score
        texts = record.texts or await self._exchanged(completion_id)
        if not texts:
            raise FailedPrecondition(f"the text of completion {completion_id} is not kept: too old, too long or scored")
        scores = await self._grader.grade(problem, texts)
        score = sum(scores) / len(scores)
        return await self._store.set_score(completion_id, score, problem, request, metrics)

    async def _own(self, completion_id: str) -> CompletionRecord:
        """Raises NotFound, PermissionDenied for another key's."""
        record = await self._recorder.stored(completion_id)
        caller().require_own(completion_id, record.key_id)
        return record

    async def _exchanged(self, completion_id: str) -> Sequence[str]:
        """The answers of a key that keeps its traffic."""
        kept = await self._kept.some([completion_id])
        return [answer.content for exchange in kept for answer in exchange.material.answers]
