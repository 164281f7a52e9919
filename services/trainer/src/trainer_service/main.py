"""Builds the service and runs it: `python -m trainer_service.main`."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

import grpc

import ratchet_rewards
from ratchet.trainer.v1 import trainer_pb2, trainer_pb2_grpc
from ratchet_kit import client, logs, sql, streams
from ratchet_kit.server import serve
from ratchet_kit.times import SystemClock
from trainer_service.adapters.events import RedisEvents
from trainer_service.adapters.folders import FsspecModelFolders
from trainer_service.adapters.meter import PrometheusMeter
from trainer_service.adapters.problem_sets import LibraryProblemSets
from trainer_service.adapters.queue import RedisRunQueue
from trainer_service.adapters.ray_head import Cluster, LocalRay, RayHeadOptions
from trainer_service.adapters.ray_jobs import JobOptions, RayJobs, RemoteRay
from trainer_service.adapters.registry import GrpcModelRegistry
from trainer_service.adapters.rollout import GrpcPolicyHost
from trainer_service.adapters.sql import SqlRunStore
from trainer_service.domain.driver import Deadlines, Driver
from trainer_service.domain.limits import Limits
from trainer_service.domain.references import References
from trainer_service.domain.reports import Reports
from trainer_service.domain.run_updates import RunUpdates
from trainer_service.domain.runs import Runs
from trainer_service.servicer import JobReportServicer, TrainerServicer
from trainer_service.settings import Settings
from trainer_service.worker import Reconciler, Worker

SERVICE = "trainer"


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and what runs beside it."""

    runs: Runs
    reports: Reports
    worker: Worker
    reconciler: Reconciler


@asynccontextmanager
async def provision(settings: Settings) -> AsyncIterator[Service]:
    """Builds everything, and releases it in the opposite order."""
    async with AsyncExitStack() as stack:
        await sql.migrate(settings.database_url, "trainer_service")
        engine = sql.create_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        redis = streams.connect(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        registry_channel = await stack.enter_async_context(client.channel(settings.registry_target))
        rollout_channel = await stack.enter_async_context(client.channel(settings.rollout_target))
        ray = _ray(settings)
        if isinstance(ray, LocalRay):
            stack.push_async_callback(ray.stop)
        jobs = RayJobs(ray, _job_options(settings))
        stack.push_async_callback(jobs.close)

        store, clock, updates, meter = SqlRunStore(engine), SystemClock(), RunUpdates(), PrometheusMeter()
        consumer = f"{socket.gethostname()}-{os.getpid()}"
        queue = RedisRunQueue(redis, consumer, settings.lease)
        registry, folders = GrpcModelRegistry(registry_channel), FsspecModelFolders(settings.runs_folder)
        events = RedisEvents(redis)
        driver = Driver(
            store=store,
            jobs=jobs,
            registry=registry,
            folders=folders,
            policies=GrpcPolicyHost(rollout_channel),
            events=events,
            updates=updates,
            meter=meter,
            clock=clock,
            code_version=settings.code_version or f"ratchet-trainer-service {version('ratchet-trainer-service')}",
            deadlines=Deadlines(max_attempts=settings.max_attempts, silence=settings.silence),
        )
        yield Service(
            runs=Runs(
                store=store,
                queue=queue,
                references=References(registry, folders, LibraryProblemSets()),
                limits=_limits(settings),
                events=events,
                updates=updates,
                clock=clock,
            ),
            reports=Reports(store, events, updates, meter, clock),
            worker=Worker(queue, driver, settings.concurrency),
            reconciler=Reconciler(store, queue, meter, clock, settings.reconcile_every),
        )


def _ray(settings: Settings) -> LocalRay | RemoteRay:
    if settings.ray_address:
        headers = {"Authorization": f"Bearer {settings.ray_token}"} if settings.ray_token else {}
        return RemoteRay(Cluster(settings.ray_address, headers))
    return LocalRay(
        RayHeadOptions(
            port=settings.ray_port,
            log_file=settings.runs_folder / "ray.log",
            accelerators=settings.accelerators,
            cpus=settings.ray_cpus,
            logical_accelerators=settings.device == "cpu",
        )
    )


def _limits(settings: Settings) -> Limits:
    rewards = tuple(ratchet_rewards.names())
    if settings.ray_address:
        other = "cpu" if settings.device == "cuda" else "cuda"
        return Limits(rewards, devices=(settings.device, other), accelerators=None)
    return Limits(rewards, devices=(settings.device,), accelerators=settings.accelerators)


def _job_options(settings: Settings) -> JobOptions:
    return JobOptions(
        runs_folder=settings.runs_folder,
        python=settings.python,
        trainer_target=settings.target,
        rollout_target=settings.rollout_target,
        sandbox_target=settings.sandbox_target,
        dtype=settings.job_dtype,
        max_fault_share=settings.max_fault_share,
        patience=settings.job_patience,
    )


async def run(settings: Settings) -> None:
    async with provision(settings) as service:

        def add(server: grpc.aio.Server) -> Sequence[str]:
            trainer_pb2_grpc.add_TrainerServiceServicer_to_server(TrainerServicer(service.runs), server)
            trainer_pb2_grpc.add_JobReportServiceServicer_to_server(JobReportServicer(service.reports), server)
            services = trainer_pb2.DESCRIPTOR.services_by_name
            return [services[name].full_name for name in ("TrainerService", "JobReportService")]

        await serve(settings, SERVICE, add, background=[service.worker.run, service.reconciler.run])


def main() -> None:
    settings = Settings()
    logs.configure(SERVICE, settings.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each look at a job is too many
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
