"""Starts the gateway: `python -m gateway_service.main`. The only module that builds things."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import grpc
from sqlalchemy import text

from gateway_service.adapters.grading import SandboxGrader
from gateway_service.adapters.registry import GrpcModelRegistry
from gateway_service.adapters.rollout import RolloutPolicyEngine
from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.adapters.sql.database import Database, database_errors
from gateway_service.adapters.sql.keys import SqlKeyStore
from gateway_service.adapters.sql.releases import SqlReleaseStore
from gateway_service.domain.completing import Completer, Router
from gateway_service.domain.feedback import Feedback
from gateway_service.domain.keys import Doorkeeper, KeyRing, new_secret
from gateway_service.domain.recording import Recorder
from gateway_service.domain.release_control import ControlOptions, ReleaseController
from gateway_service.domain.release_desk import ReleaseDesk
from gateway_service.domain.serving import Serving, ServingOptions
from gateway_service.grpc_auth import SERVICE, authenticated
from gateway_service.rest import app, resources
from gateway_service.servicer import GatewayServicer
from gateway_service.settings import Settings
from ratchet.eval.v1.eval_pb2_grpc import EvalServiceStub
from ratchet.gateway.v1.gateway_pb2_grpc import add_GatewayServiceServicer_to_server
from ratchet.registry.v1.registry_pb2_grpc import RegistryServiceStub
from ratchet.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from ratchet.trainer.v1.trainer_pb2_grpc import TrainerServiceStub
from ratchet_kit import client, sql
from ratchet_kit.http_server import HttpServer
from ratchet_kit.interceptors import Around
from ratchet_kit.logs import get_logger
from ratchet_kit.server import Background, launch, serve
from ratchet_kit.times import SystemClock
from ratchet_rewards import Grader, GrpcSandbox

log = get_logger(__name__)

# Registering a version copies and hashes it, and a run is watched for days: the caller's patience is the limit.
PEER_TIMEOUT = timedelta(minutes=10)
WATCH_TIMEOUT = timedelta(days=30)
# A completion waits for what the gateway itself asks of the registry: better an error soon than late.
ROUTING_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True)
class Gateway:
    """What `serve` runs."""

    servicer: GatewayServicer
    around: Around
    background: tuple[Background, ...]
    http_url: str

    def add(self, server: grpc.aio.Server) -> list[str]:
        add_GatewayServiceServicer_to_server(self.servicer, server)
        return [SERVICE]


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Gateway]:
    """Raises FailedPrecondition when the HTTP port is in use, Unavailable without a database."""
    clock = SystemClock()
    with database_errors():
        await sql.migrate(settings.database_url, "gateway_service")
    async with AsyncExitStack() as stack:
        engine = sql.create_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)

        async def channel(target: str, timeout: timedelta = PEER_TIMEOUT) -> grpc.aio.Channel:
            opened = client.channel(target, timeout=timeout, stream_timeout=WATCH_TIMEOUT)
            return await stack.enter_async_context(opened)

        trainer = TrainerServiceStub(await channel(settings.trainer_target))
        evals = EvalServiceStub(await channel(settings.eval_target))
        registry_stub = RegistryServiceStub(await channel(settings.registry_target))
        rollout = RolloutServiceStub(await channel(settings.rollout_target))
        grader = await stack.enter_async_context(Grader(GrpcSandbox(await channel(settings.sandbox_target))))

        registry = GrpcModelRegistry(RegistryServiceStub(await channel(settings.registry_target, ROUTING_TIMEOUT)))
        releases = SqlReleaseStore(engine)
        completions = SqlCompletionLog(engine)
        recorder = Recorder(completions, clock, keep_texts=settings.keep_texts, keep_records=settings.keep_records)
        stack.push_async_callback(recorder.flush)
        serving = Serving(
            RolloutPolicyEngine(rollout, settings.generate_timeout),
            registry,
            clock,
            ServingOptions(load_wait=settings.load_wait),
        )
        stack.push_async_callback(serving.close)
        ring = KeyRing(SqlKeyStore(engine), clock)
        await ring.ensure_admin(admin_key(settings))
        doorkeeper = Doorkeeper(ring if settings.auth == "on" else None)

        router = Router(registry, releases, random.Random())
        completer = Completer(router, serving, recorder, clock)
        desk = ReleaseDesk(releases, completions, registry, clock)
        feedback = Feedback(recorder, completions, SandboxGrader(grader, settings.problems_folder))
        servicer = GatewayServicer(completer, desk, feedback)
        controller = ReleaseController(
            releases,
            completions,
            serving,
            registry,
            clock,
            ControlOptions(tick=settings.release_tick, prepare_timeout=settings.prepare_timeout, drain=settings.drain),
        )
        database = Database(engine)

        async def check_ready() -> None:
            async with database.reading() as connection:
                await connection.execute(text("SELECT 1"))

        http = HttpServer(
            app.build(
                completer=completer,
                router=router,
                registry=registry,
                ring=ring,
                doorkeeper=doorkeeper,
                backends=resources.Backends(trainer, evals, registry_stub, servicer),
                check_ready=check_ready,
                clock=clock,
            ),
            settings.host,
            settings.http_port,
            settings.grace,
        )
        yield Gateway(servicer, authenticated(doorkeeper), (http.run, recorder.run, controller.run), http.url)


def admin_key(settings: Settings) -> str:
    """The bootstrap key: from the settings, or from the file, which only its owner can read."""
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    file = settings.admin_key_file
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return file.read_text().strip()
    key = new_secret()
    with os.fdopen(descriptor, "w") as out:
        out.write(key)
    log.info("made the administrator's API key", file=str(file))
    return key


async def run(
    settings: Settings,
    *,
    on_ready: Callable[[int], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until SIGTERM, or until `stop` is set."""
    async with build(settings) as gateway:
        await serve(
            settings,
            "gateway",
            gateway.add,
            background=gateway.background,
            around=[gateway.around],
            on_ready=on_ready,
            stop=stop,
        )


def main() -> None:
    launch("gateway", Settings(), run)


if __name__ == "__main__":
    main()
