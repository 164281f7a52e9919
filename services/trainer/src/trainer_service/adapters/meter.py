"""Meter by Prometheus."""

from collections.abc import Mapping, Sequence

from ratchet_kit import metrics
from trainer_service.domain.run.run import Run, RunId, State


class PrometheusMeter:
    def __init__(self) -> None:
        self._runs = metrics.gauge("trainer_runs", "Runs by state", ["state"])
        self._step = metrics.gauge("trainer_run_step", "The last step of a run that goes on", ["run_id"])
        self._attempt = metrics.gauge("trainer_run_attempt", "The attempt of a run that goes on", ["run_id"])
        self._faults = metrics.gauge("trainer_run_platform_faults", "Samples masked in a run that goes on", ["run_id"])
        self._shown: set[RunId] = set()

    def states(self, counts: Mapping[State, int]) -> None:
        for state in State:
            self._runs.labels(state.value).set(counts.get(state, 0))

    def unfinished(self, runs: Sequence[Run]) -> None:
        going_on = {run.id for run in runs}
        for gauge in (self._step, self._attempt, self._faults):
            for run_id in self._shown - going_on:
                gauge.remove(run_id)
        for run in runs:
            self._step.labels(run.id).set(run.step)
            self._attempt.labels(run.id).set(run.attempt)
            self._faults.labels(run.id).set(run.platform_faults)
        self._shown = going_on
