"""Builds the service and runs it: `python -m rollout_service.main`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc

from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.server import serve
from ratchet_kit.times import SystemClock
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.adapters.journal import FileJournal
from rollout_service.adapters.meter import PrometheusMeter
from rollout_service.adapters.vllm.engine import EngineDefaults, VllmFactory
from rollout_service.adapters.vllm.engine import environment as engine_environment
from rollout_service.adapters.vllm.forkserver import ForkServer
from rollout_service.domain.host import RestartLimits, Surroundings
from rollout_service.domain.policies import Policies
from rollout_service.servicer import RolloutServicer
from rollout_service.settings import Settings

SERVICE = "ratchet-rollout"


@asynccontextmanager
async def provision(settings: Settings) -> AsyncIterator[Policies]:
    """Everything the servicer needs; nothing of it is left afterwards."""
    work = settings.work_dir.expanduser()
    logs_folder = work / "logs"
    environment = engine_environment(settings.device, settings.threads, settings.eager)
    async with ForkServer(settings.device, environment, logs_folder / "forkserver.log") as server:
        surroundings = Surroundings(
            engines=VllmFactory(_defaults(settings), server, logs_folder),
            folders=DiskModelFolders(work / "models"),
            journal=FileJournal(work / "policies"),
            meter=PrometheusMeter(),
            clock=SystemClock(),
            limits=RestartLimits(deaths=settings.max_engine_deaths),
        )
        async with Policies(surroundings, settings.capacity) as policies:
            await policies.recover()
            yield policies


def _defaults(settings: Settings) -> EngineDefaults:
    return EngineDefaults(
        device=settings.device,
        max_num_seqs=settings.max_num_seqs,
        kv_cache_mib=settings.kv_cache,
        tensor_parallel_size=settings.tensor_parallel_size,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        enforce_eager=settings.eager,
        start_timeout=settings.start_timeout,
    )


async def run(settings: Settings) -> None:
    async with provision(settings) as policies:

        def add(server: grpc.aio.Server) -> Sequence[str]:
            rollout_pb2_grpc.add_RolloutServiceServicer_to_server(RolloutServicer(policies), server)
            return [rollout_pb2.DESCRIPTOR.services_by_name["RolloutService"].full_name]

        await serve(settings, SERVICE, add)


def main() -> None:
    settings = Settings()
    logs.configure(SERVICE, settings.log_level)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
