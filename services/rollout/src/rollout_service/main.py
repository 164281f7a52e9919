"""Builds the service and runs it: `python -m rollout_service.main`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import grpc

from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import gpus, log_files, memory, server
from ratchet_kit.allowed_sources import Places
from ratchet_kit.retention import Kept, tidy
from ratchet_kit.times import Clock, SystemClock
from ratchet_policies.directory import Directory
from ratchet_policies.fleet import connect, seeds_of
from rollout_service.adapters import logs
from rollout_service.adapters.engines.engine import EngineDefaults, EngineProcesses, remove_abandoned
from rollout_service.adapters.engines.engine import environment as engine_environment
from rollout_service.adapters.engines.forkserver import ForkServer
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.adapters.journal import FileJournal
from rollout_service.adapters.meter import PrometheusMeter
from rollout_service.domain.devices import Devices
from rollout_service.domain.host import RestartLimits
from rollout_service.domain.nodes import Nodes
from rollout_service.domain.policies import Policies
from rollout_service.domain.ports import EngineFactory, Meter, ModelFolders, PolicyJournal, Ports
from rollout_service.servicer import RolloutServicer
from rollout_service.settings import Settings

SERVICE = "rollout"
FORK_SERVER = "forkserver"
"""The name of its log; those of engines have the policies' names."""


@dataclass(frozen=True, slots=True)
class Service:
    """What is served."""

    policies: Policies
    nodes: Nodes
    background: Sequence[server.Background] = ()

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(RolloutServicer(self.policies, self.nodes), grpc_server)
        return [rollout_pb2.DESCRIPTOR.services_by_name["RolloutService"].full_name]


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    engines: EngineFactory | None = None,
    folders: ModelFolders | None = None,
    journal: PolicyJournal | None = None,
    meter: Meter | None = None,
    clock: Clock | None = None,
    gpu_use: Callable[[Sequence[str]], Mapping[str, float]] = gpus.use,
    limits: RestartLimits | None = None,
) -> AsyncIterator[Service]:
    """Builds everything and recovers the policies of a service that was killed. At the end no engine is left."""
    work = settings.work_dir.expanduser()
    devices = settings.devices
    async with AsyncExitStack() as stack:
        ports = Ports(
            engines=engines if engines is not None else await stack.enter_async_context(_vllm(settings, devices)),
            folders=folders or DiskModelFolders(work / "models", Places(settings.source_roots)),
            journal=journal or FileJournal(work / "policies"),
            meter=meter or PrometheusMeter(),
            clock=clock or SystemClock(),
            gpu_use=gpu_use,
        )
        limits = limits or RestartLimits(deaths=settings.max_engine_deaths)
        policies = await stack.enter_async_context(Policies(ports, limits, settings.room, devices))
        await policies.recover()
        others = await stack.enter_async_context(Directory(seeds_of(settings.peers), connect, settings.address))
        nodes = Nodes(policies, others, settings.address, memory.free)

        async def remove_logs(before: datetime) -> int:
            return await logs.remove(work / "logs", before, {FORK_SERVER, *policies.names()})

        background = [
            partial(tidy, [Kept("logs", settings.keep_logs, remove_logs)], ports.clock),
            partial(log_files.bound, partial((work / "logs").glob, "*.log")),
        ]
        yield Service(policies, nodes, background)


@asynccontextmanager
async def _vllm(settings: Settings, devices: Devices) -> AsyncIterator[EngineProcesses]:
    work = settings.work_dir.expanduser()
    logs_folder = work / "logs"
    environment = engine_environment(settings.device, settings.threads, settings.eager)
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(work / "compiled")  # it stays for the next engine
    defaults = EngineDefaults(
        device=settings.device,
        max_num_seqs=settings.max_num_seqs,
        kv_cache_bytes=settings.kv_cache_bytes,
        kv_cache_share=settings.kv_cache_share,
        tensor_parallel_size=settings.tensor_parallel_size,
        gpu_memory_utilization=devices.memory_share,
        enforce_eager=settings.eager,
        start_timeout=settings.start_timeout,
        tool_parsers=settings.tool_parsers,
        reasoning_parsers=settings.reasoning_parsers,
        max_silence=settings.max_engine_silence,
    )
    await asyncio.to_thread(remove_abandoned)
    async with ForkServer(settings.device, environment, logs_folder / f"{FORK_SERVER}.log") as fork_server:
        yield EngineProcesses(defaults, fork_server, logs_folder)


# Long enough for a long completion, and for an update that waits for it.
run = partial(server.run, SERVICE, provision, deadlines=server.Deadlines(reply=timedelta(minutes=10)))


def main() -> None:
    server.launch(SERVICE, Settings.read(), run)


if __name__ == "__main__":
    main()
