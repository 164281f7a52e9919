"""Builds registry-service and runs it: `python -m registry_service.main`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import grpc
from redis.asyncio import Redis

from ratchet.registry.v1 import dataset_pb2, dataset_pb2_grpc, registry_pb2, registry_pb2_grpc
from ratchet_kit import client, server, streams
from ratchet_kit.allowed_sources import Places
from ratchet_kit.queues import StreamQueue
from ratchet_kit.sql import Database
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.work import WorkQueue, every
from ratchet_kit.worker import Timing, Worker
from registry_service.adapters.alike import FsspecSketchStore
from registry_service.adapters.artifacts import FsspecArtifactStore
from registry_service.adapters.dataset_files import FsspecDatasetFiles
from registry_service.adapters.evaluations import GrpcEvaluationSource
from registry_service.adapters.events import RedisEvents
from registry_service.adapters.pair_files import FsspecPairFiles
from registry_service.adapters.sql.stores import sql_stores
from registry_service.adapters.task_files import FsspecTaskFiles
from registry_service.domain.aliases import Aliases
from registry_service.domain.copies import Copies, Uploads
from registry_service.domain.datasets import Datasets
from registry_service.domain.examinations import Examinations
from registry_service.domain.findings import Findings
from registry_service.domain.gate_worker import GateWorker
from registry_service.domain.gates import Gates
from registry_service.domain.models import Models
from registry_service.domain.pair_work import PairWork
from registry_service.domain.ports import ArtifactStore, DatasetFiles, EvaluationSource, Events, Stores
from registry_service.domain.rewards import Rewards
from registry_service.domain.versions import Versions
from registry_service.servicer import DatasetServicer, RegistryServicer
from registry_service.settings import Settings

SERVICE = "registry"
GROUP = "registry-workers"
COPIES_AT_A_TIME = 2
EXAMINED_AT_A_TIME = 2
"""Data sets: a small one does not wait behind a large one."""
SWEEP_INTERVAL = timedelta(minutes=30)
UPLOAD_EXPIRY = timedelta(hours=6)
"""The files of a copy that did not end by then are removed."""


@dataclass(frozen=True, slots=True)
class Queues:
    """Where ids wait for a worker: `registry.versions` to be copied, `registry.gates` to be decided,
    `registry.datasets` to be examined."""

    versions: WorkQueue
    gates: WorkQueue
    datasets: WorkQueue


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and what runs beside it."""

    models: Models
    versions: Versions
    aliases: Aliases
    gates: Gates
    rewards: Rewards
    datasets: Datasets
    findings: Findings
    background: Sequence[server.Background]

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""
        servicer = RegistryServicer(self.models, self.versions, self.aliases, self.gates, self.rewards)
        registry_pb2_grpc.add_RegistryServiceServicer_to_server(servicer, grpc_server)
        dataset_pb2_grpc.add_DatasetServiceServicer_to_server(
            DatasetServicer(self.datasets, self.findings), grpc_server
        )
        files = {"RegistryService": registry_pb2, "DatasetService": dataset_pb2}
        return [file.DESCRIPTOR.services_by_name[name].full_name for name, file in files.items()]


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    stores: Stores | None = None,
    queues: Queues | None = None,
    artifacts: ArtifactStore | None = None,
    dataset_files: DatasetFiles | None = None,
    evaluations: EvaluationSource | None = None,
    events: Events | None = None,
    clock: Clock | None = None,
    timing: Timing | None = None,
) -> AsyncIterator[Service]:
    """Builds everything, and releases it in the opposite order. Tests hand in ports of their own."""
    async with AsyncExitStack() as stack:
        name, clock = settings.worker_name(), clock or SystemClock()
        if stores is None:
            stores = await stack.enter_async_context(_stores(settings))
        if queues is None or events is None:
            redis = await stack.enter_async_context(streams.connect(settings.redis_url))
            queues, events = queues or _queues(redis, settings, name), events or RedisEvents(redis)
        if evaluations is None:
            evaluations = GrpcEvaluationSource(await stack.enter_async_context(client.channel(settings.eval_target)))
        artifacts = artifacts or FsspecArtifactStore(
            f"{settings.artifact_url.rstrip('/')}/models", Places(settings.source_roots)
        )
        datasets_url = f"{settings.artifact_url.rstrip('/')}/datasets"
        sketches = FsspecSketchStore(f"{datasets_url}/sketches")
        dataset_files = dataset_files or FsspecDatasetFiles(datasets_url, sketches)
        timing = timing or Timing.of_lease(settings.lease)

        copies = Copies(stores.versions, artifacts, events, name, clock, settings.lease)
        gate_worker = GateWorker(stores, evaluations, sketches, name, clock, settings.lease)
        pairs = PairWork(stores.datasets, dataset_files, FsspecPairFiles(datasets_url), clock)
        tasks = FsspecTaskFiles(datasets_url)
        examinations = Examinations(
            stores.datasets, dataset_files, sketches, stores.findings, pairs, tasks, name, clock, settings.lease
        )
        allowed = [name.strip() for name in settings.licences.split(",") if name.strip()]
        datasets = Datasets(stores.datasets, dataset_files, queues.datasets, clock, allowed)
        versions = Versions(stores.versions, stores.models, queues.versions, Uploads(stores.versions, artifacts), clock)

        async def sweep(stop: asyncio.Event) -> None:
            await every(SWEEP_INTERVAL, stop, partial(versions.sweep, UPLOAD_EXPIRY), name="sweep")

        async def sweep_datasets(stop: asyncio.Event) -> None:
            await every(SWEEP_INTERVAL, stop, partial(datasets.sweep, UPLOAD_EXPIRY), name="sweep data sets")

        yield Service(
            models=Models(stores.models, clock),
            versions=versions,
            aliases=Aliases(stores, artifacts, clock),
            gates=Gates(stores, queues.gates, clock),
            rewards=Rewards(stores.rewards, clock),
            datasets=datasets,
            findings=Findings(stores.datasets, stores.findings, dataset_files, clock),
            background=[
                Worker(queues.versions, copies, clock, slots=COPIES_AT_A_TIME, timing=timing).run,
                Worker(queues.gates, gate_worker, clock, timing=timing).run,
                Worker(queues.datasets, examinations, clock, slots=EXAMINED_AT_A_TIME, timing=timing).run,
                sweep,
                sweep_datasets,
            ],
        )


@asynccontextmanager
async def _stores(settings: Settings) -> AsyncIterator[Stores]:
    async with Database.opened(settings.database_url, "registry_service") as database:
        yield sql_stores(database)


def _queues(redis: Redis, settings: Settings, name: str) -> Queues:
    queues = [
        StreamQueue(streams.Stream(redis, stream, GROUP, name, lease=settings.lease))
        for stream in ("registry.versions", "registry.gates", "registry.datasets")
    ]
    return Queues(*queues)


run = partial(server.run, SERVICE, provision)


def main() -> None:
    server.launch(SERVICE, Settings.read(), run)


if __name__ == "__main__":
    main()
