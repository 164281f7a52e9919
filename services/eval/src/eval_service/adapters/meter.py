"""Meter on Prometheus."""

from eval_service.domain.evaluation import Evaluation, State
from ratchet_kit import metrics
from ratchet_rewards import PASSED, TAMPERED

_samples = metrics.counter("eval_samples", "Graded completions, by verdict", ("verdict",))
_faults = metrics.counter("eval_platform_faults", "Attempts that the platform failed, by error", ("error",))
_evaluations = metrics.counter("eval_evaluations", "Evaluations that ended, by state", ("state",))
_seconds = metrics.histogram("eval_evaluation_seconds", "From an evaluation's first start to its end", ("state",))


class PrometheusMeter:
    def __init__(self) -> None:
        metrics.start_at_zero(_samples, [PASSED, TAMPERED])
        metrics.start_at_zero(_evaluations, [state for state in State if state.ended])

    def sampled(self, verdict: str) -> None:
        _samples.labels(verdict).inc()

    def retried(self, fault: str) -> None:
        _faults.labels(fault).inc()

    def ended(self, evaluation: Evaluation) -> None:
        _evaluations.labels(str(evaluation.state)).inc()
        if evaluation.start_time and evaluation.end_time:
            seconds = (evaluation.end_time - evaluation.start_time).total_seconds()
            _seconds.labels(str(evaluation.state)).observe(seconds)
