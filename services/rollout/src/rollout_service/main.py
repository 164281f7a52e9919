"""Builds the service and runs it: `python -m rollout_service.main`."""

import asyncio
import shutil
from collections.abc import Sequence

import grpc

from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit import logs
from ratchet_kit.server import serve
from ratchet_kit.times import SystemClock
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.adapters.meter import PrometheusMeter
from rollout_service.adapters.vllm.engine import EngineDefaults, VllmFactory
from rollout_service.domain.host import RestartLimits
from rollout_service.domain.policies import Policies
from rollout_service.servicer import RolloutServicer
from rollout_service.settings import Settings

SERVICE = "ratchet-rollout"


def build(settings: Settings) -> Policies:
    work = settings.work_dir.expanduser()
    received = work / "models"
    shutil.rmtree(received, ignore_errors=True)  # what a service that was killed left behind
    engines = VllmFactory(_defaults(settings), log_folder=work / "logs")
    return Policies(
        engines=engines,
        folders=DiskModelFolders(received),
        meter=PrometheusMeter(),
        clock=SystemClock(),
        capacity=settings.capacity,
        limits=RestartLimits(deaths=settings.max_engine_deaths),
    )


def _defaults(settings: Settings) -> EngineDefaults:
    return EngineDefaults(
        device=settings.device,
        max_num_seqs=settings.max_num_seqs,
        kv_cache_mib=settings.kv_cache,
        tensor_parallel_size=settings.tensor_parallel_size,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        enforce_eager=settings.eager,
        threads=settings.threads,
        start_timeout=settings.start_timeout,
    )


async def run(settings: Settings) -> None:
    async with build(settings) as policies:

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
