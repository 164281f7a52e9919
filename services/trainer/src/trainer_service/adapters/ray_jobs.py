"""JobRunner by Ray's job API: a job is `python -m trainer_service.verl` with its config in the environment.

The API is spoken over HTTP (docs.ray.io, "Ray Jobs REST API"): Ray's own client for it is blocking, has no timeouts,
and would load Ray into the service.
"""

import asyncio
import contextlib
import json
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import Unavailable
from ratchet_kit.files import last_line, tail
from ratchet_kit.logs import get_logger
from ratchet_kit.tool_servers import ToolServer
from ratchet_kit.usage import Prices, total
from trainer_service.adapters.ray_head import Cluster
from trainer_service.domain.cluster.capacity import Demand, Node
from trainer_service.domain.cluster.ports import JobState, JobStatus
from trainer_service.domain.inputs.found import FetchedModel
from trainer_service.domain.run.run import Run, RunId
from trainer_service.job.run.config import NO_ROOM, OUT_OF_MEMORY, Dtype, JobConfig
from trainer_service.job.run.record import LOGS

log = get_logger(__name__)

_ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}
_STOP_POLL = 0.5
_LOST = '"event": "job.lost"'
_LAST_LINES = 40
_REASON = 500
_AGAIN = 120.0
"""Before Ray is told again what it knows, in seconds."""


class Ray(Protocol):
    """Where the cluster is."""

    @property
    def place(self) -> str:
        """Its name, under which it knows its jobs."""
        ...

    def nodes(self) -> Sequence[Node] | None:
        """What the cluster has for jobs; None where the cluster has to be asked."""
        ...

    def running(self) -> Cluster | None:
        """The cluster, None while there is none: then there is no job either."""
        ...

    async def ensure(self) -> Cluster:
        """The cluster, brought up when there is none. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteRay:
    """A cluster that others run."""

    cluster: Cluster

    @property
    def place(self) -> str:
        return self.cluster.address

    def nodes(self) -> None:
        return None

    def running(self) -> Cluster | None:
        return self.cluster

    async def ensure(self) -> Cluster:
        return self.cluster


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What every job gets."""

    runs_folder: Path
    """Seen under this path by the service and by the cluster's head, where jobs start."""
    exports_uri: str
    """Where each run's exports get a folder; empty: in the run's own."""
    samples_uri: str
    """The same of samples."""
    python: str
    trainer_target: str
    rollout_target: str
    sandbox_target: str
    registry_target: str
    dtype: Dtype
    max_fault_share: float
    patience: timedelta
    prices: Prices | None = None
    tool_servers: Mapping[str, ToolServer] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the config: what a cluster's nodes do not have of this service's own environment."""
    stop_timeout: timedelta = timedelta(seconds=30)


class RayJobs:
    def __init__(self, ray: Ray, options: JobOptions, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport`: instead of the network, as in a test."""
        self._ray = ray
        self._options = options
        self._http = httpx.AsyncClient(timeout=30, transport=transport)
        self._wanted: list[dict[str, int]] = []
        self._wanted_at = 0.0

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def place(self) -> str:
        return self._ray.place

    async def nodes(self) -> Sequence[Node]:
        if (known := self._ray.nodes()) is not None:
            return known
        cluster = await self._ray.ensure()
        return await self._nodes(cluster)

    async def _nodes(self, cluster: Cluster) -> list[Node]:
        found = []
        for node in await self._listed(cluster, "nodes"):
            if node["state"] == "ALIVE":
                has = node.get("resources_total") or {}
                counts = float(has.get("CPU", 0)), float(has.get("GPU", 0))
                found.append(Node(*counts, node["node_id"], node["node_ip"]))
        return found

    async def holders(self) -> Mapping[Node, Sequence[RunId]]:
        if (known := self._ray.nodes()) is not None:
            return dict.fromkeys(known, ())
        cluster = await self._ray.ensure()
        reply = await self._call(cluster, "GET", "/api/jobs/")
        if reply.is_error:
            raise Unavailable(f"Ray does not list its jobs: {_first_line(reply.text)}")
        jobs = {job["job_id"]: job["submission_id"] or "" for job in reply.json()}
        found: dict[Node, set[str]] = {node: set() for node in await self._nodes(cluster)}
        by_id = {node.id: of for node, of in found.items()}
        for group in await self._listed(cluster, "placement_groups"):
            name = jobs.get(group["creator_job_id"], "")
            for bundle in group["bundles"] or ():
                if group["state"] != "REMOVED" and name and bundle["node_id"] in by_id:
                    by_id[bundle["node_id"]].add(name.rpartition("-")[0])
        return {node: [RunId(id) for id in sorted(ids)] for node, ids in found.items()}

    async def want(self, demands: Sequence[Demand]) -> None:
        """By a small job, since Ray takes it from within alone; again after some minutes, as a Ray that was started
        anew has forgotten it."""
        if self._ray.nodes() is not None:  # it does not grow
            return
        bundles = [{"CPU": one.cpus, "GPU": one.accelerators} for demand in demands for one in demand.bundles]
        now = time.monotonic()
        if bundles == self._wanted and (not bundles or now - self._wanted_at < _AGAIN):
            return
        cluster = await self._ray.ensure()
        wanted = json.dumps(bundles)
        body = {
            "entrypoint": shlex.join([self._options.python, "-m", "trainer_service.verl.demand", wanted]),
            "metadata": {"wants": wanted},
        }
        reply = await self._call(cluster, "POST", "/api/jobs/", json=body)
        if reply.is_error:
            raise Unavailable(f"Ray does not take what is wanted of it: {_first_line(reply.text)}")
        log.info("cluster.wanted", runs=len(demands), bundles=wanted)
        self._wanted, self._wanted_at = bundles, now

    async def _listed(self, cluster: Cluster, what: str) -> Sequence[Mapping[str, Any]]:
        """All of one kind of Ray's state API. Raises Unavailable."""
        reply = await self._call(cluster, "GET", f"/api/v0/{what}?detail=true&limit=10000")
        try:
            listed: Sequence[Mapping[str, Any]] = reply.raise_for_status().json()["data"]["result"]["result"]
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"Ray does not list its {what}: {_first_line(reply.text)}") from error
        return listed

    async def submit(self, run: Run, base: FetchedModel, reward_model: FetchedModel | None = None) -> None:
        cluster = await self._ray.ensure()
        name = _name(run.id, run.attempt)
        if await self._details(cluster, name):
            return
        job = self._config(run, base, reward_model)
        output = self._log_file(run.id, run.attempt)
        with disk_errors(str(output.parent)):
            await asyncio.to_thread(output.parent.mkdir, parents=True, exist_ok=True)
        command = [self._options.python, "-m", "trainer_service.verl"]
        body = {
            "submission_id": name,
            "entrypoint": f"exec {shlex.join(command)} >> {shlex.quote(str(output))} 2>&1",
            "runtime_env": {"env_vars": {**self._options.environment, **job.to_env()}},
            "metadata": {"run_id": run.id, "attempt": str(run.attempt)},
        }
        reply = await self._call(cluster, "POST", "/api/jobs/", json=body)
        if reply.is_error:
            raise Unavailable(f"Ray does not take the job: {_first_line(reply.text)}")

    async def status(self, id: RunId, attempt: int) -> JobStatus:
        details = await self._known(id, attempt)
        if details is None:
            return JobStatus(JobState.UNKNOWN, "Ray does not know the job: it was killed, and its jobs with it")
        if details["status"] not in _ENDED:
            return JobStatus(JobState.WAITING if details["status"] == "PENDING" else JobState.ACTIVE)
        log = await asyncio.to_thread(tail, self._log_file(id, attempt), _LAST_LINES)
        return JobStatus(
            JobState.ENDED,
            _said(log)
            or _reason(details) + (f", after the line {last!r}" if (last := last_line("\n".join(log))) else ""),
            out_of_memory=details.get("driver_exit_code") == OUT_OF_MEMORY,
            no_room=details.get("driver_exit_code") == NO_ROOM,
        )

    async def stop(self, id: RunId, attempt: int) -> None:
        """Ray sends SIGTERM, and SIGKILL some seconds later."""
        details = await self._known(id, attempt)
        if details is None or details["status"] in _ENDED:
            return
        cluster = await self._ray.ensure()
        await self._call(cluster, "POST", f"/api/jobs/{_name(id, attempt)}/stop")
        try:
            async with asyncio.timeout(self._options.stop_timeout.total_seconds()):
                while (details := await self._known(id, attempt)) and details["status"] not in _ENDED:
                    await asyncio.sleep(_STOP_POLL)
        except TimeoutError as error:
            raise Unavailable(f"Ray has not stopped job {_name(id, attempt)} yet") from error

    async def _known(self, id: RunId, attempt: int) -> Mapping[str, Any] | None:
        cluster = self._ray.running()
        return await self._details(cluster, _name(id, attempt)) if cluster else None

    async def _details(self, cluster: Cluster, name: str) -> Mapping[str, Any] | None:
        """What Ray knows of a job; None when it knows none of that name."""
        reply = await self._call(cluster, "GET", f"/api/jobs/{name}")
        if reply.status_code == httpx.codes.NOT_FOUND:
            return None
        if reply.is_error:
            raise Unavailable(f"Ray gives no answer about job {name}: {_first_line(reply.text)}")
        try:
            details: Mapping[str, Any] = reply.json()
        except ValueError as error:
            raise Unavailable(f"Ray's answer about job {name} is invalid: {_first_line(reply.text)}") from error
        return details

    async def _call(self, cluster: Cluster, method: str, path: str, json: Any = None) -> httpx.Response:
        try:
            reply = await self._http.request(method, cluster.address + path, headers=dict(cluster.headers), json=json)
        except httpx.TransportError as error:
            raise Unavailable(f"Ray at {cluster.address} cannot be reached: {error!r}") from error
        if reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise Unavailable(f"Ray at {cluster.address} asks for another token than RATCHET_TRAINER_RAY_TOKEN")
        return reply

    def _config(self, run: Run, base: FetchedModel, reward_model: FetchedModel | None) -> JobConfig:
        options = self._options
        return JobConfig(
            run_id=run.id,
            attempt=run.attempt,
            spec=replace(
                run.spec,
                # What this service sends to trackers, verl need not write.
                loggers=tuple(name for name in run.spec.loggers if not run.track(name)),
                resources=replace(run.spec.resources, nodes=run.nodes or run.spec.resources.nodes),
            ),
            base_path=str(base.path),
            base_uri=base.uri,
            reward_model_path=str(reward_model.path) if reward_model else "",
            work_dir=options.runs_folder / run.id,
            export_uri=f"{options.exports_uri}/{run.id}" if options.exports_uri else "",
            samples_uri=f"{options.samples_uri}/{run.id}" if options.samples_uri else "",
            trainer_target=options.trainer_target,
            rollout_target=options.rollout_target,
            sandbox_target=options.sandbox_target,
            registry_target=options.registry_target,
            dtype=options.dtype,
            out_of_memory=run.out_of_memory,
            max_fault_share=options.max_fault_share,
            patience=options.patience,
            prices=options.prices,
            tool_servers=options.tool_servers,
            spent=total(run.usages[: run.attempt - 1]).cost or 0.0,
        )

    def _log_file(self, id: RunId, attempt: int) -> Path:
        return self._options.runs_folder / id / LOGS / f"attempt-{attempt}.log"


def _name(id: RunId, attempt: int) -> str:
    return f"{id}-{attempt}"


def _reason(details: Mapping[str, Any]) -> str:
    """The reason that a job is over, for people. Ray gives the number of a signal as a negative exit code."""
    match details.get("driver_exit_code"):
        case int(code) if code < 0:
            return f"it was killed by {signal.Signals(-code).name}"
        case int(code) if code:
            return f"it ended with exit code {code}"
        case 0:
            return "it ended without a report"
    return _first_line(details.get("message") or details["status"])


def _said(log: Sequence[str]) -> str:
    """The reason that the job gave for its end; empty where it gave none. Progress bars and Ray print after it, or
    before it on its line."""
    for line in reversed(log):
        if _LOST in line:
            with contextlib.suppress(ValueError):
                return str(json.loads(line[line.index("{") :])["reason"])[:_REASON]
    return ""


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:300]
