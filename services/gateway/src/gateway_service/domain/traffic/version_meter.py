"""Metrics of what each version answers: how often, how long, how much. Sums for releases and experiments are in the
database; these are for whoever watches."""

from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit import metrics

MOST_LABELS = 200
"""Versions, and variants of experiments, with numbers of their own: the first that this process served. All others
count as `other`."""

_OF_VERSION = ("model", "version")
_answers = metrics.counter(
    "gateway_answers", "Attempts to answer: answered, failed, or left by the caller", (*_OF_VERSION, "arm", "outcome")
)
_seconds = metrics.histogram("gateway_answer_seconds", "Time to the last token of an answer", _OF_VERSION)
_variants = metrics.counter(
    "gateway_variant_answers", "Attempts to answer for an experiment", ("experiment", "variant", "outcome")
)
_tokens = metrics.counter("gateway_answer_tokens", "Tokens that were read and written", (*_OF_VERSION, "kind"))


class VersionMeter:
    def __init__(self) -> None:
        self._versions = _Bounded(("other", "0"))
        self._variants = _Bounded(("other", "other"))

    def count(self, record: CompletionRecord) -> None:
        of_version = self._versions.labels(record.version.model, str(record.version.number))
        outcome = "left" if record.left else "failed" if record.error else "answered"
        _answers.labels(*of_version, record.arm.value, outcome).inc()
        _tokens.labels(*of_version, "prompt").inc(record.prompt_tokens)
        _tokens.labels(*of_version, "completion").inc(record.completion_tokens)
        if record.experiment_id:
            _variants.labels(*self._variants.labels(record.experiment_id, record.variant), outcome).inc()
        if outcome == "answered":
            _seconds.labels(*of_version).observe(record.latency.total_seconds())


class _Bounded:
    """Labels of which there may be too many."""

    def __init__(self, other: tuple[str, str]) -> None:
        self._other = other
        self._known: set[tuple[str, str]] = set()

    def labels(self, first: str, second: str) -> tuple[str, str]:
        if len(self._known) < MOST_LABELS:
            self._known.add((first, second))
        return (first, second) if (first, second) in self._known else self._other
