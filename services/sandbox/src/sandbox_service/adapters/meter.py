"""Meter by Prometheus. Labels have few values each: no name that a caller chose is one."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_kit import metrics
from ratchet_kit.work import Priority
from sandbox_service.domain.execution import Execution
from sandbox_service.domain.signs import Sighting

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class PrometheusMeter:
    def __init__(self) -> None:
        self._programs = metrics.counter(
            "sandbox_programs", "Programs executed, by verdict, by what ran them and how isolated",
            ["verdict", "runtime", "level"],
        )  # fmt: skip
        self._seconds = metrics.histogram(
            "sandbox_program_seconds",
            "Time of a program: in the queue, on the clock, of CPU, to compile, to judge",
            ["phase", "verdict"],
            _BUCKETS,
        )
        self._signs = metrics.counter("sandbox_signs", "Signs of cheating, whatever the verdict", ["sign"])
        self._faults = metrics.counter("sandbox_platform_faults", "Programs that the platform failed twice: no verdict")
        self._refused = metrics.counter("sandbox_refused", "Calls refused since the queue was full")
        self._waiting = metrics.gauge("sandbox_queue_waiting", "Programs that wait for their turn", ["priority"])
        for priority in Priority:
            self._waiting.labels(priority.name.lower())

    def executed(
        self, execution: Execution, waited: timedelta, graded: timedelta, hidden: Sequence[Sighting] = ()
    ) -> None:
        verdict = execution.verdict.value
        self._programs.labels(verdict, execution.runtime, str(execution.level)).inc()
        phases = {"queue": waited, "run": execution.wall_time, "cpu": execution.cpu_time, "judge": graded}
        if execution.compile_time:
            phases["compile"] = execution.compile_time
        for phase, time in phases.items():
            self._seconds.labels(phase, verdict).observe(time.total_seconds())
        for sighting in (*execution.signs, *hidden):
            self._signs.labels(sighting.sign.value).inc()

    def faulted(self) -> None:
        self._faults.inc()

    def queued(self, priority: Priority, waiting: int) -> None:
        self._waiting.labels(priority.name.lower()).set(waiting)

    def refused(self) -> None:
        self._refused.inc()
