"""Builds the service and runs it: `python -m trainer_service.main`."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import grpc

from ratchet.common.v1 import priority_pb2
from ratchet.trainer.v1 import job_report_pb2, job_report_pb2_grpc, trainer_pb2, trainer_pb2_grpc
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client, log_files, server, service_auth, streams
from ratchet_kit.allowed_sources import Places
from ratchet_kit.queues import StreamQueue
from ratchet_kit.retention import LOOK, Kept, tidy
from ratchet_kit.server import Background
from ratchet_kit.sql import Database
from ratchet_kit.storage import Folder
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.work import WorkQueue, every
from ratchet_kit.worker import Timing, Worker
from ratchet_policies.fleet import Fleet
from ratchet_problems.dataset_fetching import Datasets
from trainer_service.adapters.code_version import code_version
from trainer_service.adapters.evaluations import GrpcEvaluations
from trainer_service.adapters.events import RedisEvents
from trainer_service.adapters.folders import FsspecModelFolders
from trainer_service.adapters.meter import PrometheusMeter
from trainer_service.adapters.mlflow import Credentials, Mlflow
from trainer_service.adapters.plugins import InstalledPlugins
from trainer_service.adapters.problem_sets import LibraryProblemSets
from trainer_service.adapters.ray_head import Cluster, LocalRay, RayHeadOptions
from trainer_service.adapters.ray_jobs import JobOptions, RayJobs, RemoteRay
from trainer_service.adapters.registry import GrpcCatalogue, GrpcModelRegistry, GrpcRewardRegistry
from trainer_service.adapters.rollout import RolloutPolicyHost
from trainer_service.adapters.samples import FsspecSamples
from trainer_service.adapters.sql import SqlRunStore
from trainer_service.adapters.trials import SandboxTrials
from trainer_service.adapters.wandb import Wandb
from trainer_service.domain.cluster.ports import JobRunner, PolicyHost
from trainer_service.domain.cluster.scheduler import Scheduler, Sharing
from trainer_service.domain.create.following import Following
from trainer_service.domain.create.runs import Runs
from trainer_service.domain.inputs.ports import (
    ModelFolders,
    ModelRegistry,
    Plugins,
    ProblemSets,
    RewardRegistry,
    Suites,
)
from trainer_service.domain.inputs.references import References
from trainer_service.domain.run.ports import Events, Meter, RunFiles, RunStore
from trainer_service.domain.run.run_updates import RunUpdates
from trainer_service.domain.run.sample import SampleStore
from trainer_service.domain.run.samples import Samples
from trainer_service.domain.spec.limits import GIB, Limits
from trainer_service.domain.work.driver import Deadlines, Driver
from trainer_service.domain.work.mirror import ModelMirror
from trainer_service.domain.work.needs import Needs
from trainer_service.domain.work.ports import Evaluations, Tracker, VersionRegistry
from trainer_service.domain.work.registration import Exporting, Registration
from trainer_service.domain.work.reports import Reports
from trainer_service.domain.work.retention import Retention
from trainer_service.domain.work.tracking import Tracking
from trainer_service.domain.work.validating import Validating
from trainer_service.job.run.record import LOGS
from trainer_service.servicer import JobReportServicer, TrainerServicer
from trainer_service.settings import Settings
from trainer_service.worker import Claim, RunWork

SERVICE = "trainer"
FORGET_INTERVAL = timedelta(minutes=1)
"""Between two looks whether somebody is forgotten whose pairs are on this machine."""
TRACKING_INTERVAL = timedelta(seconds=5)
"""Between two looks at what trackers have not had."""
VALIDATING_INTERVAL = timedelta(seconds=2)
"""Between two looks at evaluations of checkpoints."""
QUEUE = "trainer.runs"
RAY_LOG = "ray.log"


@dataclass(frozen=True, slots=True)
class Ports:
    """What the domain needs from outside."""

    store: RunStore
    queue: WorkQueue
    jobs: JobRunner
    registry: ModelRegistry
    versions: VersionRegistry
    rewards: RewardRegistry
    folders: ModelFolders
    files: RunFiles
    samples: SampleStore
    problems: ProblemSets
    plugins: Plugins
    policies: PolicyHost
    suites: Suites
    evaluations: Evaluations
    events: Events
    meter: Meter
    clock: Clock
    trackers: Sequence[Tracker] = ()
    mirror: ModelMirror | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and what runs beside it."""

    runs: Runs
    exporting: Exporting
    samples: Samples
    reports: Reports
    following: Following
    driver: Driver
    validating: Validating
    scheduler: Scheduler
    worker: Worker[Claim]
    background: Sequence[Background]

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers; returns their full names."""
        servicer = TrainerServicer(self.runs, self.exporting, self.samples, self.scheduler)
        trainer_pb2_grpc.add_TrainerServiceServicer_to_server(servicer, grpc_server)
        job_report_pb2_grpc.add_JobReportServiceServicer_to_server(
            JobReportServicer(self.reports, self.following), grpc_server
        )
        files = (trainer_pb2.DESCRIPTOR, job_report_pb2.DESCRIPTOR)
        return [service.full_name for file in files for service in file.services_by_name.values()]


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    ports: Ports | None = None,
    deadlines: Deadlines | None = None,
    timing: Timing | None = None,
    sharing: Sharing | None = None,
    tracking_interval: timedelta = TRACKING_INTERVAL,
) -> AsyncIterator[Service]:
    """Builds everything, and releases it in the opposite order. A test hands in what is not to be the real one."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each look at a job is too many
    async with AsyncExitStack() as stack:
        if ports is None:
            ports = await stack.enter_async_context(real_ports(settings))
        yield _compose(settings, ports, deadlines, timing, sharing, tracking_interval)


def _compose(
    settings: Settings,
    ports: Ports,
    deadlines: Deadlines | None,
    timing: Timing | None,
    sharing: Sharing | None,
    tracking_interval: timedelta,
) -> Service:
    updates = RunUpdates()
    scheduler = Scheduler(
        store=ports.store,
        queue=ports.queue,
        jobs=ports.jobs,
        policies=ports.policies,
        updates=updates,
        clock=ports.clock,
        sharing=sharing or Sharing(settings.concurrency, settings.memory_bytes, settings.worth_preempting),
    )
    deadlines = deadlines or Deadlines(silence=settings.silence)
    timing = timing or Timing(beat=settings.lease / 4, reconcile=settings.lease * 3 / 4)
    needs = Needs(ports.store, ports.versions)
    validating = Validating(ports.store, ports.evaluations, ports.folders, needs, ports.queue, updates, ports.clock)
    registration = Registration(
        ports.versions, ports.problems, ports.evaluations, ports.clock, code_version(), deadlines.again
    )
    driver = Driver(
        store=ports.store,
        jobs=ports.jobs,
        registry=ports.registry,
        folders=ports.folders,
        registration=registration,
        validating=validating,
        policies=ports.policies,
        events=ports.events,
        updates=updates,
        scheduler=scheduler,
        clock=ports.clock,
        deadlines=deadlines,
    )
    worker = Worker(
        ports.queue,
        RunWork(ports.store, driver),
        ports.clock,
        slots=settings.concurrency + 1,  # one to see whose turn it is not, and to register what has trained
        leased=True,
        timing=timing,
    )
    references = References(ports.registry, ports.rewards, ports.folders, ports.problems, ports.plugins, ports.suites)
    limits = _limits(settings)
    retention = Retention(ports.store, ports.folders, ports.samples, needs, ports.clock)
    kept = [
        Kept("checkpoints", settings.keep_checkpoints, retention.remove_checkpoints),
        Kept("exports", settings.keep_exports, retention.remove_exports),
        Kept("samples", settings.keep_samples, retention.remove_samples),
    ]
    return Service(
        runs=Runs(
            store=ports.store,
            queue=ports.queue,
            jobs=ports.jobs,
            folders=ports.folders,
            files=ports.files,
            samples=ports.samples,
            policies=ports.policies,
            references=references,
            limits=limits,
            events=ports.events,
            updates=updates,
            scheduler=scheduler,
            clock=ports.clock,
        ),
        exporting=Exporting(ports.store, registration),
        samples=Samples(ports.store, ports.samples),
        reports=Reports(ports.store, ports.events, updates, ports.clock),
        following=Following(ports.store, ports.problems, references, limits, updates, ports.clock),
        driver=driver,
        validating=validating,
        scheduler=scheduler,
        worker=worker,
        background=(
            worker.run,
            scheduler.run,
            partial(_count, ports, timing.reconcile),
            partial(_forget, ports),
            partial(_validate, validating),
            *_tracking(ports, tracking_interval),
            partial(tidy, kept, ports.clock),
            *_bounding(retention, settings.max_checkpoint_gib),
            partial(log_files.bound, partial(_logs, settings.runs_folder)),
        ),
    )


def _tracking(ports: Ports, interval: timedelta) -> Iterator[Background]:
    """Each by itself: one that hangs holds up no other."""
    tracking = Tracking(ports.store, ports.files, ports.clock)

    async def repeat(work: Callable[[], Awaitable[None]], name: str, stop: asyncio.Event) -> None:
        await every(interval, stop, work, name=name)

    for tracker in ports.trackers:
        yield partial(repeat, partial(tracking.send, tracker), f"track in {tracker.name}")
    if ports.mirror is not None:
        yield partial(repeat, ports.mirror.look, "mirror models")


def _bounding(retention: Retention, gib: float | None) -> Iterator[Background]:
    async def bound(stop: asyncio.Event) -> None:
        assert gib is not None
        await every(LOOK, stop, partial(retention.bound_checkpoints, int(gib * GIB)), name="bound checkpoints")

    if gib is not None:
        yield bound


def _logs(runs_folder: Path) -> Iterator[Path]:
    """Those of Ray and of jobs."""
    yield runs_folder / RAY_LOG
    yield from runs_folder.glob(f"*/{LOGS}/*.log")


async def _forget(ports: Ports, stop: asyncio.Event) -> None:
    await every(FORGET_INTERVAL, stop, ports.problems.forget, name="forget pairs")


async def _validate(validating: Validating, stop: asyncio.Event) -> None:
    await every(VALIDATING_INTERVAL, stop, validating.look, name="evaluate checkpoints")


async def _count(ports: Ports, interval: timedelta, stop: asyncio.Event) -> None:
    async def count() -> None:
        ports.meter.states(await ports.store.counts())
        runs = await ports.store.unfinished()
        steps = [await ports.store.steps(run.id, 1, run.step - 1) for run in runs]
        ports.meter.unfinished(runs, {run.id: last[0] for run, last in zip(runs, steps, strict=True) if last})

    await every(interval, stop, count, name="count runs")


@asynccontextmanager
async def real_ports(settings: Settings) -> AsyncIterator[Ports]:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database.opened(settings.database_url, "trainer_service"))
        redis = streams.connect(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        registry_channel = await stack.enter_async_context(client.channel(settings.registry_target))
        sandbox_channel = await stack.enter_async_context(client.channel(settings.sandbox_target))
        # Behind what policies wait for.
        sandbox = GrpcSandbox(sandbox_channel, caller="trainer", priority=priority_pb2.PRIORITY_LOW)
        rollouts = await stack.enter_async_context(Fleet.of(settings.rollout_target))
        ray = _ray(settings)
        if isinstance(ray, LocalRay):
            stack.push_async_callback(ray.stop)
        jobs = RayJobs(ray, _job_options(settings))
        stack.push_async_callback(jobs.close)
        plugins = InstalledPlugins(settings.allowed_plugins)
        places = Places([*settings.source_roots, str(settings.runs_folder)])
        store = SqlRunStore(database)
        folders = FsspecModelFolders(
            settings.runs_folder, places, Folder(settings.exports_uri) if settings.exports_uri else None
        )
        trackers, mirror = list[Tracker](), None
        if "mlflow" in settings.trackers:
            mlflow = _mlflow(settings)
            stack.push_async_callback(mlflow.close)
            trackers.append(mlflow)
            mirror = ModelMirror(GrpcCatalogue(registry_channel), mlflow, store, mlflow.name)
        if "tensorboard" in settings.trackers:
            from trainer_service.adapters.tensorboard import TensorBoard  # beside verl, where jobs' packages are

            trackers.append(TensorBoard(settings.tensorboard_url))
        if "wandb" in settings.trackers:
            trackers.append(Wandb(_wandb_environment(settings), str(settings.runs_folder / "wandb")))
        stream = streams.Stream(redis, QUEUE, SERVICE, settings.worker_name(), lease=settings.lease)
        registry = GrpcModelRegistry(registry_channel)
        evaluations = GrpcEvaluations(await stack.enter_async_context(client.channel(settings.eval_target)))
        yield Ports(
            store=store,
            queue=StreamQueue(stream),
            jobs=jobs,
            registry=registry,
            versions=registry,
            rewards=GrpcRewardRegistry(registry_channel),
            folders=folders,
            files=folders,
            samples=FsspecSamples(settings.runs_folder, Folder(settings.samples_uri) if settings.samples_uri else None),
            problems=LibraryProblemSets(places, plugins, SandboxTrials(sandbox), Datasets(registry_channel)),
            plugins=plugins,
            suites=evaluations,
            evaluations=evaluations,
            policies=RolloutPolicyHost(rollouts),
            events=RedisEvents(redis),
            meter=PrometheusMeter(),
            clock=SystemClock(),
            trackers=trackers,
            mirror=mirror,
        )


def _mlflow(settings: Settings) -> Mlflow:
    credentials = Credentials(
        settings.mlflow_tracking_username,
        settings.mlflow_tracking_password.get_secret_value(),
        settings.mlflow_tracking_token.get_secret_value(),
    )
    return Mlflow(settings.mlflow_tracking_uri, credentials)


def _wandb_environment(settings: Settings) -> dict[str, str]:
    """The variables of W&B that are set."""
    values = {
        "WANDB_API_KEY": settings.wandb_api_key.get_secret_value(),
        "WANDB_BASE_URL": settings.wandb_base_url,
        "WANDB_ENTITY": settings.wandb_entity,
        "WANDB_MODE": settings.wandb_mode,
    }
    return {name: value for name, value in values.items() if value}


def _ray(settings: Settings) -> LocalRay | RemoteRay:
    if settings.ray_address:
        headers = {"Authorization": f"Bearer {settings.ray_token}"} if settings.ray_token else {}
        return RemoteRay(Cluster(settings.ray_address, headers))
    return LocalRay(
        RayHeadOptions(
            port=settings.ray_port,
            log_file=settings.runs_folder / RAY_LOG,
            accelerators=settings.accelerators,
            environment=settings.ray_environment,
            logical_accelerators=settings.device == "cpu",
        ),
        place=settings.worker_name(),
    )


def _limits(settings: Settings) -> Limits:
    own = settings.ray_address is None
    other = "cpu" if settings.device == "cuda" else "cuda"
    return Limits(
        devices=(settings.device,) if own else (settings.device, other),
        accelerators=settings.accelerators if own else None,
        memory_bytes=settings.memory_bytes,
        gpus=settings.gpu_memory,
        cores=len(os.sched_getaffinity(0)) if own else None,
        trackers=settings.trackers,
        activation_bytes=4 if settings.job_dtype == "float32" else 2,
        prices=settings.prices,
        tool_servers=tuple(settings.tool_servers),
    )


def _job_options(settings: Settings) -> JobOptions:
    return JobOptions(
        runs_folder=settings.runs_folder,
        exports_uri=settings.exports_uri,
        samples_uri=settings.samples_uri,
        python=settings.python,
        trainer_target=settings.target,
        rollout_target=settings.rollout_target,
        sandbox_target=settings.sandbox_target,
        registry_target=settings.registry_target,
        dtype=settings.job_dtype,
        max_fault_share=settings.max_fault_share,
        patience=settings.job_patience,
        prices=settings.prices,
        tool_servers=settings.tool_servers,
        # Our own Ray has this service's environment; a cluster's nodes have not.
        environment={service_auth.TOKEN: service_auth.token()} if settings.ray_address else {},
    )


run = partial(server.run, SERVICE, provision)


def main() -> None:
    server.launch(SERVICE, Settings.read(), run)


if __name__ == "__main__":
    main()
