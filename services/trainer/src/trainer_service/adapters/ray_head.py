"""A Ray head of this service's own: started when the first job needs it, again when it dies, gone with the service."""

import asyncio
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx

from ratchet_kit.errors import Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.ports import LOOPBACK, is_free
from ratchet_kit.process import ProcessGroup
from trainer_service.domain.cluster.capacity import Node

log = get_logger(__name__)

# Offsets from the first port: what listens on a port that is known beforehand. Workers take free ones.
_PORTS = {
    "--port": 0,
    "--dashboard-port": 1,
    "--ray-client-server-port": 2,
    "--node-manager-port": 3,
    "--object-manager-port": 4,
    "--runtime-env-agent-port": 5,
    "--dashboard-agent-listen-port": 6,
    "--dashboard-agent-grpc-port": 7,
    "--metrics-export-port": 8,
}
_GRACE = timedelta(seconds=3)
"""Ray has nothing to save, and takes long to end by itself."""
_POLL = 0.2
SECRETS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "WANDB_API_KEY")
"""Of trackers, which this service alone speaks to: no job gets them."""


@dataclass(frozen=True, slots=True)
class RayHeadOptions:
    port: int
    """The first of nine that the head listens on."""
    log_file: Path
    accelerators: int = 2
    """Training ranks. On CPU verl counts them as GPUs, so that Ray has to claim this many."""
    cpus: int = 32
    """More than the machine has: verl reserves one for each of its many controllers, which mostly wait."""
    object_store_bytes: int = 300_000_000
    logical_accelerators: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside that of this process."""
    start_timeout: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where jobs are submitted: the dashboard's URL, and the headers that it asks for."""

    address: str
    headers: Mapping[str, str]


class LocalRay:
    """`place` is the name of this service, whose end is the end of its jobs.

    Everything listens on loopback, and asks for a token that only this service and its jobs know: to reach Ray is
    to run code."""

    def __init__(self, options: RayHeadOptions, place: str) -> None:
        self.place = place
        self._options = options
        self._token = secrets.token_urlsafe(32)
        # Sockets are made in it, whose paths have at most 107 characters; Ray adds some 65. The name is fixed, so that
        # the next head clears away what a service that was killed left there.
        self._folder = Path(tempfile.gettempdir()) / f"ratchet-ray-{os.getuid()}-{options.port}"
        self._process: ProcessGroup | None = None
        self._starting = asyncio.Lock()
        self._cluster = Cluster(
            f"http://{LOOPBACK}:{options.port + _PORTS['--dashboard-port']}",
            {"Authorization": f"Bearer {self._token}"},
        )

    def nodes(self) -> Sequence[Node]:
        """What the head is given when it starts."""
        return (Node(self._options.cpus, self._options.accelerators),)

    def running(self) -> Cluster | None:
        """None while there is no head: then there is no job either."""
        alive = self._process is not None and self._process.returncode is None
        return self._cluster if alive else None

    async def ensure(self) -> Cluster:
        """The cluster, started when it is not there. Raises Unavailable when it does not come up."""
        async with self._starting:
            if running := self.running():
                return running
            if self._process is not None:
                log.warning("ray.died", exit_status=self._process.returncode)
            await self.stop()
            try:
                await self._start()
            except OSError as error:  # a disk that is full, too many files open
                raise Unavailable(f"Ray cannot be started: {error}") from error
            return self._cluster

    async def stop(self) -> None:
        """Nothing of Ray, nor of its jobs, is left."""
        if self._process is not None:
            await self._process.stop(_GRACE)
            self._process = None
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _start(self) -> None:
        await self._wait_for_ports()
        self._folder.mkdir(mode=0o700)
        self._options.log_file.parent.mkdir(parents=True, exist_ok=True)
        began = asyncio.get_running_loop().time()
        log.info("ray.starting", port=self._options.port, log=str(self._options.log_file))
        with self._options.log_file.open("ab") as out:
            self._process = await ProcessGroup.start(
                self._command(), env=self._environment(), stdout=out, stderr=out, orphan_grace=_GRACE
            )
        try:
            await self._wait_until_it_answers(self._process)
        except BaseException:
            await self.stop()
            raise
        log.info("ray.ready", seconds=round(asyncio.get_running_loop().time() - began, 1))

    def _command(self) -> list[str]:
        options = self._options
        ports = [f"{flag}={options.port + offset}" for flag, offset in _PORTS.items()]
        return [
            *(sys.executable, "-m", "trainer_service.verl.ray_start", "start", "--head", "--block"),
            *(f"--node-ip-address={LOOPBACK}", f"--dashboard-host={LOOPBACK}", "--include-dashboard=true"),
            *ports,
            *("--min-worker-port=0", "--max-worker-port=0", f"--temp-dir={self._folder}"),
            *(f"--num-cpus={options.cpus}", f"--object-store-memory={options.object_store_bytes}"),
            *([f"--num-gpus={options.accelerators}"] if options.logical_accelerators else []),
            *("--no-monitor", "--disable-usage-stats", "--log-color=false"),  # there is nothing to scale
        ]

    def _environment(self) -> dict[str, str]:
        """Inherited by whatever Ray starts, jobs and their workers included."""
        kept_out = ("RAY_ADDRESS", *SECRETS)
        inherited = {name: value for name, value in os.environ.items() if name not in kept_out}
        return {
            **inherited,
            **self._options.environment,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
            # Without this Ray takes the machine's own address for 127.0.0.1, and listens there.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            # It would start a Python for each of the CPUs that we claim to have.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_worker_prestart": "0",
            # They have no reader.
            "RAY_enable_metrics_collection": "0",
            # verl's workers import for a minute when the cores are few and busy.
            "RAY_worker_register_timeout_seconds": "300",
            "RAY_health_check_failure_threshold": "20",
        }

    async def _wait_until_it_answers(self, process: ProcessGroup) -> None:
        """A job can be submitted once the dashboard serves and the node's agent, which starts jobs, listens."""
        timeout = self._options.start_timeout.total_seconds()
        agent = self._options.port + _PORTS["--dashboard-agent-listen-port"]
        try:
            async with asyncio.timeout(timeout), httpx.AsyncClient(headers=self._cluster.headers) as client:
                while process.returncode is None:
                    try:
                        reply = await client.get(f"{self._cluster.address}/api/jobs/")
                        if reply.status_code == httpx.codes.OK and not is_free(agent):
                            return
                    except httpx.TransportError:
                        pass
                    await asyncio.sleep(_POLL)
        except TimeoutError as error:
            raise Unavailable(f"Ray did not come up within {timeout:g} s; see {self._options.log_file}") from error
        raise Unavailable(f"Ray ended at its start, with {process.returncode}; see {self._options.log_file}")

    async def _wait_for_ports(self) -> None:
        """A head that is ending, of a service that was killed, may hold them for a moment."""
        ports = [self._options.port + offset for offset in _PORTS.values()]
        for port in ports:
            for _ in range(50):
                if is_free(port):
                    break
                await asyncio.sleep(_POLL)
            else:
                raise Unavailable(f"port {port}, which Ray is to listen on, is in use")
