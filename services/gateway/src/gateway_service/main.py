"""Starts the gateway: `python -m gateway_service.main`. The only module that builds things."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import grpc
import httpx
import uvloop
from fastapi import FastAPI
from sqlalchemy import text

from gateway_service import wiring
from gateway_service.adapters.datasets import GrpcDataSets
from gateway_service.adapters.event_feed import RedisFeed
from gateway_service.adapters.failures import EvaluationFailures, RunFailures, VersionFailures
from gateway_service.adapters.grading import SandboxGrader
from gateway_service.adapters.health import GrpcHealthCheck
from gateway_service.adapters.ledger import GrpcLedger
from gateway_service.adapters.nodes import AllPolicies, NodesHealth
from gateway_service.adapters.oidc import OidcProvider
from gateway_service.adapters.registry import GrpcModelRegistry, GuardedRegistry
from gateway_service.adapters.sql.audit import SqlAuditStore
from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.adapters.sql.exchanges import SqlExchangeStore
from gateway_service.adapters.sql.experiments import SqlExperimentStore
from gateway_service.adapters.sql.keys import SqlKeyStore
from gateway_service.adapters.sql.releases import SqlReleaseStore
from gateway_service.adapters.sql.webhooks import SqlWebhookStore
from gateway_service.adapters.sql.workflows import SqlScheduleStore, SqlWorkflowStore
from gateway_service.adapters.thread_runner import Inside
from gateway_service.adapters.webhook_sender import HttpSender
from gateway_service.auth import grpc_auth
from gateway_service.domain.champions import StartLoads
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.router import Router
from gateway_service.domain.experiments.experiments import Experiments
from gateway_service.domain.experiments.known_experiments import KnownExperiments
from gateway_service.domain.experiments.replayer import Replayer
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.key import MIN_SECRET, new_secret
from gateway_service.domain.keys.keys import Keys
from gateway_service.domain.keys.usage import Usage
from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.platform import HealthCheck, Platform
from gateway_service.domain.refresher import Refresher
from gateway_service.domain.releases.controller import ReleaseController
from gateway_service.domain.releases.releases import Releases
from gateway_service.domain.releases.under_way import Uses
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.exchanges import Exchanges
from gateway_service.domain.traffic.feedback import Feedback
from gateway_service.domain.traffic.forgetting import Forgetting
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.version_health import VersionHealth
from gateway_service.domain.webhooks.signed_delivery import Deliverer
from gateway_service.domain.webhooks.webhooks import Webhooks
from gateway_service.domain.workflows.schedules import Schedules
from gateway_service.domain.workflows.workflow import Workflow
from gateway_service.domain.workflows.workflows import Workflows
from gateway_service.rest import app
from gateway_service.rest.resources import REGISTRY
from gateway_service.servicer import (
    ExperimentServicer,
    GatewayServicer,
    KeyServicer,
    PlatformServicer,
    ReleaseServicer,
    TrafficServicer,
    WebhookServicer,
    WorkflowServicer,
)
from gateway_service.servicers import Servicers, guarded
from gateway_service.settings import Settings
from gateway_service.wiring import CompletionRoom, Ground, Intervals, KeyRoom, Peers, ReleaseRoom, Stores
from ratchet.eval.v1 import eval_pb2_grpc, preference_pb2_grpc
from ratchet.registry.v1 import dataset_pb2_grpc, registry_pb2_grpc
from ratchet.sandbox.v1 import batch_pb2_grpc, program_pb2_grpc
from ratchet.trainer.v1 import trainer_pb2_grpc
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client, files, streams
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.http_server import HttpServer
from ratchet_kit.queues import StreamQueue
from ratchet_kit.retention import tidy
from ratchet_kit.server import Background, launch, serve
from ratchet_kit.sql import Database
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.worker import Worker
from ratchet_kit.workers import supervise
from ratchet_policies.fleet import Fleet
from ratchet_problems.dataset_fetching import Datasets

SERVICE = "gateway"
STREAM, GROUP = "gateway.workflows", "gateway-workers"
WORKER = "worker"
"""As an argument: this process is one of several."""
PEER_TIMEOUT = timedelta(minutes=10)
"""For one call of another service through REST; a delete may have many files to remove. Callers may give up earlier."""
WATCH_TIMEOUT = timedelta(days=30)
"""A run is watched for days."""
GENERATE_TIMEOUT = timedelta(minutes=5)
IDENTITIES_TIMEOUT = timedelta(seconds=5)
ROUTING_TIMEOUT = timedelta(seconds=10)
"""For what a completion needs from the registry: better an early error than a late one."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the gateway, wired."""

    models: KnownModels
    refresher: Refresher
    serving: Serving
    recorder: Recorder
    tidy: Background
    router: Router
    completer: Completer
    start_loads: StartLoads
    health: VersionHealth
    feedback: Feedback
    exchanges: Exchanges
    forgetting: Forgetting
    releases: Releases
    controller: ReleaseController
    experiments: Experiments
    known_experiments: KnownExperiments
    replayer: Replayer
    keys: Keys
    authenticator: Authenticator
    usage: Usage
    webhooks: Webhooks
    deliverer: Deliverer
    workflows: Workflows
    schedules: Schedules
    worker: Worker[Workflow]
    servicers: Servicers
    http: FastAPI


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    stores: Stores | None = None,
    peers: Peers | None = None,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    intervals: Intervals = Intervals(),
) -> AsyncIterator[Service]:
    """Builds the service and releases it. What is not handed in is made as the settings say.

    Raises Unavailable when the database cannot be reached.
    """
    async with AsyncExitStack() as stack:
        if stores is None:
            stores = await stack.enter_async_context(_sql_stores(settings))
        if peers is None:
            peers = await stack.enter_async_context(_grpc_peers(settings))
        ground = Ground(settings, stores, peers, clock or SystemClock(), chance or random.Random(), intervals)
        service = _wire(ground)
        stack.push_async_callback(service.recorder.flush)
        stack.push_async_callback(service.serving.close)
        stack.push_async_callback(service.models.close)
        await service.keys.ensure_admin(admin_key(settings))
        await service.refresher.refresh()
        await service.known_experiments.refresh()
        yield service


def _wire(ground: Ground) -> Service:
    """From the ground up: a room takes those that were wired before it."""
    keys = wiring.wire_keys(ground)
    serving = wiring.wire_serving(ground)
    traffic = wiring.wire_traffic(ground)
    experiments = wiring.wire_experiments(ground, serving.serving, traffic.recorder)
    releases = wiring.wire_releases(ground, serving.models, serving.serving)
    completions = wiring.wire_completions(ground, keys, serving, traffic, experiments, releases)
    webhooks = wiring.wire_webhooks(ground)
    health = wiring.wire_health(ground)
    inside = Inside()
    flows = wiring.wire_workflows(ground, keys, traffic.feedback, inside)
    platform = Platform(ground.peers.health, ground.peers.nodes, ground.stores.check_ready)
    servicers = Servicers(
        GatewayServicer(completions.completer, traffic.feedback),
        ReleaseServicer(releases.releases),
        ExperimentServicer(experiments.experiments),
        KeyServicer(keys.keys, keys.audit, keys.quotas),
        PlatformServicer(platform, wiring.wire_failures(ground), serving.serving, health, keys.costs),
        TrafficServicer(traffic.exchanges),
        WebhookServicer(webhooks.webhooks),
        WorkflowServicer(flows.workflows, flows.schedules),
        keys.audit,
        keys.quotas,
    )
    http = _wire_rest(ground, keys, releases, completions, servicers)
    inside.app = http
    return Service(
        models=serving.models,
        refresher=Refresher(keys.known, releases.known, keys.quotas, ground.intervals.refresh),
        serving=serving.serving,
        recorder=traffic.recorder,
        tidy=partial(tidy, wiring.kept(ground), ground.clock),
        router=completions.router,
        completer=completions.completer,
        start_loads=completions.start_loads,
        health=health,
        feedback=traffic.feedback,
        exchanges=traffic.exchanges,
        forgetting=traffic.forgetting,
        releases=releases.releases,
        controller=releases.controller,
        experiments=experiments.experiments,
        known_experiments=experiments.known,
        replayer=experiments.replayer,
        keys=keys.keys,
        authenticator=keys.authenticator,
        usage=keys.usage,
        webhooks=webhooks.webhooks,
        deliverer=webhooks.deliverer,
        workflows=flows.workflows,
        schedules=flows.schedules,
        worker=flows.worker,
        servicers=servicers,
        http=http,
    )


def _wire_rest(
    ground: Ground, keys: KeyRoom, releases: ReleaseRoom, completions: CompletionRoom, servicers: Servicers
) -> FastAPI:
    stores, peers = ground.stores, ground.peers
    uses = Uses(releases.known, peers.registry, stores.experiments)
    peers_stubs = {**peers.backends, REGISTRY: GuardedRegistry(peers.backends[REGISTRY], uses)}
    guarded_stubs = guarded(peers_stubs, keys.quotas, keys.audit)
    return app.build(
        completer=completions.completer,
        router=completions.router,
        registry=peers.registry,
        authenticator=keys.authenticator,
        usage=keys.usage,
        logins=keys.logins,
        backends={**guarded_stubs, **servicers.backends},
        check_ready=stores.check_ready,
        refresh=releases.known.refresh,
        clock=ground.clock,
    )


@asynccontextmanager
async def _sql_stores(settings: Settings) -> AsyncIterator[Stores]:
    async with Database.opened(settings.database_url, "gateway_service") as database:

        async def check_ready() -> None:
            async with database.reading() as connection:
                await connection.execute(text("SELECT 1"))

        yield Stores(
            SqlReleaseStore(database),
            SqlExperimentStore(database),
            SqlCompletionLog(database, settings.prices),
            SqlExchangeStore(database),
            SqlKeyStore(database),
            SqlWebhookStore(database),
            SqlAuditStore(database),
            SqlWorkflowStore(database),
            SqlScheduleStore(database),
            check_ready,
        )


@asynccontextmanager
async def _grpc_peers(settings: Settings) -> AsyncIterator[Peers]:
    async with AsyncExitStack() as stack:

        async def channel(target: str, timeout: timedelta = PEER_TIMEOUT) -> grpc.aio.Channel:
            opened = client.channel(target, timeout=timeout, stream_timeout=WATCH_TIMEOUT)
            return await stack.enter_async_context(opened)

        registry = await channel(settings.registry_target)
        routing = await channel(settings.registry_target, ROUTING_TIMEOUT)
        sandbox = await channel(settings.sandbox_target)
        evaluation = await channel(settings.eval_target)
        trainer = await channel(settings.trainer_target)
        services = {
            "trainer": trainer,
            "sandbox": sandbox,
            "eval": evaluation,
            "registry": registry,
        }
        executor = await stack.enter_async_context(Executor(GrpcSandbox(sandbox, caller="gateway")))
        fleet = await stack.enter_async_context(
            Fleet.of(
                settings.rollout_target,
                generate_timeout=GENERATE_TIMEOUT,
                unload_timeout=GENERATE_TIMEOUT,
                hedging=settings.hedging,
            )
        )
        sender = HttpSender(await stack.enter_async_context(httpx.AsyncClient()))
        identities, oidc = None, settings.oidc
        if oidc is not None:
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=IDENTITIES_TIMEOUT.total_seconds()))
            identities = OidcProvider(http, oidc)
        redis = await stack.enter_async_context(streams.connect(settings.redis_url))
        checks: dict[str, HealthCheck] = {name: GrpcHealthCheck(peer) for name, peer in services.items()}
        yield Peers(
            policies=fleet,
            nodes=fleet,
            registry=GrpcModelRegistry(registry_pb2_grpc.RegistryServiceStub(routing)),
            grader=SandboxGrader(CodeEnvironment(executor), settings.problems_folder, Datasets(registry)),
            sets=GrpcDataSets(dataset_pb2_grpc.DatasetServiceStub(routing)),
            health={"trainer": checks["trainer"], "rollout": NodesHealth(fleet)} | checks,
            backends={
                "ratchet.trainer.v1.TrainerService": trainer_pb2_grpc.TrainerServiceStub(trainer),
                "ratchet.rollout.v1.RolloutService": AllPolicies(fleet),
                "ratchet.eval.v1.EvalService": eval_pb2_grpc.EvalServiceStub(evaluation),
                "ratchet.eval.v1.PreferenceService": preference_pb2_grpc.PreferenceServiceStub(evaluation),
                "ratchet.registry.v1.RegistryService": registry_pb2_grpc.RegistryServiceStub(registry),
                "ratchet.registry.v1.DatasetService": dataset_pb2_grpc.DatasetServiceStub(registry),
                "ratchet.sandbox.v1.BatchService": batch_pb2_grpc.BatchServiceStub(sandbox),
                "ratchet.sandbox.v1.ProgramService": program_pb2_grpc.ProgramServiceStub(sandbox),
            },
            ledger=GrpcLedger(
                trainer_pb2_grpc.TrainerServiceStub(trainer),
                eval_pb2_grpc.EvalServiceStub(evaluation),
                registry_pb2_grpc.RegistryServiceStub(registry),
                dataset_pb2_grpc.DatasetServiceStub(registry),
            ),
            identities=identities,
            sender=sender,
            feed=RedisFeed(redis, settings.worker_name()),
            workflows=StreamQueue(
                streams.Stream(redis, STREAM, GROUP, wiring.worker_name(settings), lease=wiring.LEASE)
            ),
            failures={
                "trainer": RunFailures(trainer_pb2_grpc.TrainerServiceStub(trainer)),
                "eval": EvaluationFailures(eval_pb2_grpc.EvalServiceStub(evaluation)),
                "registry": VersionFailures(registry_pb2_grpc.RegistryServiceStub(registry)),
            },
        )


def admin_key(settings: Settings) -> str:
    """The bootstrap key: from the settings, or from the file, which is made at the first start. Raises
    FailedPrecondition for one that is too short."""
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    secret = files.secret(settings.admin_key_file, new_secret)
    if len(secret) < MIN_SECRET:
        raise FailedPrecondition(f"the key in {settings.admin_key_file} is shorter than {MIN_SECRET} characters")
    return secret


async def run(
    settings: Settings,
    *,
    on_ready: Callable[[int], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until SIGTERM, or until `stop` is set. Raises FailedPrecondition when a port is in use."""
    shares_port = settings.workers > 1
    async with provision(settings) as service:
        http = HttpServer(
            service.http,
            settings.host,
            settings.http_port,
            settings.grace,
            settings.certificate,
            shares_port=shares_port,
        )
        await serve(
            settings,
            SERVICE,
            service.servicers.add_to,
            background=(
                http.run,
                service.recorder.run,
                service.tidy,
                service.controller.run,
                service.refresher.run,
                service.serving.run,
                service.start_loads.run,
                service.health.run,
                service.known_experiments.run,
                service.experiments.run,
                service.replayer.run,
                service.forgetting.run,
                service.deliverer.run,
                service.deliverer.listen,
                service.worker.run,
                service.schedules.run,
            ),
            wrappers=[grpc_auth(service.authenticator, service.usage)],
            on_ready=on_ready,
            stop=stop,
            shares_port=shares_port,
        )


async def run_workers(settings: Settings) -> None:
    """Serves with several processes until SIGTERM.

    Raises FailedPrecondition as `supervise` does, Unavailable when the database cannot be reached.
    """
    async with _sql_stores(settings):
        admin_key(settings)  # made once, as the tables are, before workers look for them

    def command(worker: int) -> list[str]:
        return [sys.executable, "-m", "gateway_service.main", WORKER, str(worker)]

    await supervise(settings, (settings.port, settings.http_port), settings.workers, command)


def main() -> None:
    settings = Settings.read()
    if settings.workers == 1:
        launch(SERVICE, settings, run, uvloop.new_event_loop)
    elif WORKER in sys.argv:
        launch(SERVICE, settings.model_copy(update={"metrics_port": 0}), run, uvloop.new_event_loop)
    else:
        launch(SERVICE, settings, run_workers)


if __name__ == "__main__":
    main()
