"""Meter by Prometheus."""

from collections.abc import Mapping

from ratchet_kit import metrics
from trainer_service.domain.run import Run, State


class PrometheusMeter:
    def __init__(self) -> None:
        self._runs = metrics.gauge("trainer_runs", "Runs by state", ["state"])
        self._step = metrics.gauge("trainer_run_step", "The last step of a run that goes on", ["run_id"])
        self._attempt = metrics.gauge("trainer_run_attempt", "The attempt of a run that goes on", ["run_id"])
        self._faults = metrics.gauge("trainer_run_platform_faults", "Samples masked in a run that goes on", ["run_id"])

    def states(self, counts: Mapping[State, int]) -> None:
        for state in State:
            self._runs.labels(state.value).set(counts.get(state, 0))

    def progressed(self, run: Run) -> None:
        of_run = ((self._step, run.step), (self._attempt, run.attempt), (self._faults, run.platform_faults))
        for gauge, value in of_run:
            if run.state.is_final:  # a label set for every run there ever was would grow without end
                gauge.remove(run.id)
            else:
                gauge.labels(run.id).set(value)
