"""Metrics of what each version answers: how often, how long, how much. Sums for releases and experiments are in the
database; these are for whoever watches."""

from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit import metrics
from ratchet_kit.names import VersionRef

MOST_VERSIONS = 200
"""Versions with numbers of their own, the first that this process served; all others count as OTHER."""
OTHER = VersionRef("other", 0)

_OF_VERSION = ("model", "version")
_answers = metrics.counter(
    "gateway_answers", "Attempts to answer: answered, failed, or left by the caller", (*_OF_VERSION, "arm", "outcome")
)
_seconds = metrics.histogram("gateway_answer_seconds", "Time to the last token of an answer", _OF_VERSION)
_tokens = metrics.counter("gateway_answer_tokens", "Tokens that were read and written", (*_OF_VERSION, "kind"))


class VersionMeter:
    def __init__(self) -> None:
        self._known: set[VersionRef] = set()

    def count(self, record: CompletionRecord) -> None:
        of_version = self._labels(record.version)
        outcome = "left" if record.left else "failed" if record.error else "answered"
        _answers.labels(*of_version, record.arm.value, outcome).inc()
        _tokens.labels(*of_version, "prompt").inc(record.prompt_tokens)
        _tokens.labels(*of_version, "completion").inc(record.completion_tokens)
        if outcome == "answered":
            _seconds.labels(*of_version).observe(record.latency.total_seconds())

    def _labels(self, version: VersionRef) -> tuple[str, str]:
        if len(self._known) < MOST_VERSIONS:
            self._known.add(version)
        counted = version if version in self._known else OTHER
        return counted.model, str(counted.number)
