"""Meter by Prometheus."""

from collections.abc import Mapping, Sequence

from ratchet_kit import metrics
from trainer_service.domain.run.run import Run, RunId, State, Step

CURVES = (
    "reward_mean",
    "validation_score",
    "loss",
    "kl",
    "entropy",
    "tokens_per_second",
    "tokens_total",
    "time_step_s",
)
"""Metrics of a step that the board shows; all others are in the console and on the run's page."""


class PrometheusMeter:
    def __init__(self) -> None:
        self._runs = metrics.gauge("trainer_runs", "Runs by state", ["state"])
        self._step = metrics.gauge("trainer_run_step", "The last step of a run that goes on", ["run_id"])
        self._attempt = metrics.gauge("trainer_run_attempt", "The attempt of a run that goes on", ["run_id"])
        self._faults = metrics.gauge("trainer_run_platform_faults", "Samples masked in a run that goes on", ["run_id"])
        self._curves = {
            name: metrics.gauge(f"trainer_step_{name}", f"{name} of the last step of a run that goes on", ["run_id"])
            for name in CURVES
        }
        self._shown: set[RunId] = set()

    def states(self, counts: Mapping[State, int]) -> None:
        for state in State:
            self._runs.labels(state.value).set(counts.get(state, 0))

    def unfinished(self, runs: Sequence[Run], steps: Mapping[RunId, Step]) -> None:
        """`steps`: the last of each run that has one."""
        going_on = {run.id for run in runs}
        for gauge in (self._step, self._attempt, self._faults, *self._curves.values()):
            for run_id in self._shown - going_on:
                gauge.remove(run_id)
        for run in runs:
            self._step.labels(run.id).set(run.step)
            self._attempt.labels(run.id).set(run.attempt)
            self._faults.labels(run.id).set(run.platform_faults)
        for run_id, step in steps.items():
            for name, value in step.metrics.items():
                if name in self._curves:
                    self._curves[name].labels(run_id).set(value)
        self._shown = going_on
