"""An executor that counts what another one does, for Prometheus."""

import asyncio
import time

from ratchet_kit import metrics
from ratchet_kit.errors import Unavailable
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.jobs import Job, Report
from sandbox_service.domain.ports import Pool

_jobs = metrics.counter("sandbox_jobs", "Jobs run, by the way they ended", ["kind", "end"])
_seconds = metrics.histogram("sandbox_job_seconds", "Time on the clock of a job in its lane", ["kind"])
_cpu_seconds = metrics.histogram("sandbox_job_cpu_seconds", "CPU time of a job", ["kind"])
_waiting_seconds = metrics.histogram("sandbox_wait_seconds", "Time of a job beside its run, mostly waiting for a lane")
_level = metrics.gauge("sandbox_level", "Isolation of the weakest lane: 3 for L3, 0 for less than L1")
_lanes = metrics.gauge("sandbox_lanes", "Lanes: limit (programs at a time), up (of all kinds), busy", ["state"])
_under_way = metrics.gauge("sandbox_jobs_under_way", "Jobs that wait for a lane or run")


class MeteredLanes:
    def __init__(self, executor: Pool) -> None:
        self._executor = executor
        _level.set_function(lambda: float(executor.capabilities.level))
        _lanes.labels("limit").set(executor.capabilities.lanes)
        _lanes.labels("up").set_function(lambda: float(executor.lanes_up))
        _lanes.labels("busy").set_function(lambda: float(executor.lanes_busy))

    @property
    def capabilities(self) -> Capabilities:
        return self._executor.capabilities

    async def describe(self) -> Capabilities:
        return await self._executor.describe()

    async def fork_limit(self, count: int) -> float:
        return await self._executor.fork_limit(count)

    async def run(self, job: Job) -> Report:
        kind, started = type(job).__name__.removesuffix("Job").lower(), time.monotonic()
        with _under_way.track_inprogress():
            try:
                report = await self._executor.run(job)
            except Unavailable:
                _jobs.labels(kind, "platform_fault").inc()
                raise
            except asyncio.CancelledError:
                _jobs.labels(kind, "cancelled").inc()
                raise
        ran = report.wall_time.total_seconds()
        _jobs.labels(kind, report.end.value).inc()
        _seconds.labels(kind).observe(ran)
        _cpu_seconds.labels(kind).observe(report.cpu_time.total_seconds())
        _waiting_seconds.observe(max(0.0, time.monotonic() - started - ran))
        return report
