"""What is measured of the request log, for experiments."""

from enum import StrEnum


class Measure(StrEnum):
    """QUALITY: mean score of the scored answers; FEEDBACK and TESTS: of those that applications, and that a problem's
    tests scored. ERROR_RATE: over all attempts. LATENCY (mean seconds), LATENCY_P95 and TOKENS: of answers."""

    QUALITY = "quality"
    FEEDBACK = "feedback"
    TESTS = "tests"
    ERROR_RATE = "error_rate"
    LATENCY = "latency"
    LATENCY_P95 = "latency_p95"
    TOKENS = "tokens"

    @property
    def more_is_better(self) -> bool:
        return self in (Measure.QUALITY, Measure.FEEDBACK, Measure.TESTS)

    @property
    def is_bounded(self) -> bool:
        """Each value is in [0, 1]."""
        return self.more_is_better or self is Measure.ERROR_RATE

    @property
    def unit(self) -> str:
        """Of its values, for people."""
        if self in (Measure.LATENCY, Measure.LATENCY_P95):
            return " s"
        return " tokens" if self is Measure.TOKENS else ""
