"""Two registries and two sandboxes at work while their Redis and PostgreSQL refuse, stop, forget and crash, and while
they are stopped and killed themselves: what was accepted is done once and rightly, and no service ends by itself.

A minute or two, without training: the services are processes as in production, and so are the stores.
"""

import asyncio
import json
import os
import signal
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import redis

from ratchet.common.v1 import verdict_pb2
from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet.sandbox.v1 import batch_pb2, batch_pb2_grpc
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit import retry
from ratchet_kit.client import channel
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.postgres import CannotStart, postgres_server
from ratchet_testing.redis_server import redis_server
from ratchet_testing.replicas import Replica, door

from .refusing import be_a_replica, be_full, lose_its_replicas

pytestmark = [pytest.mark.chaos, pytest.mark.e2e, pytest.mark.timeout(600)]

CALLER = "chaos"
PROGRAMS = 250
CALL_S = 5.0
PATIENCE = timedelta(minutes=4)
STOPPED_S = 8.0


@dataclass(frozen=True)
class Stage:
    """The stores, and the services on them."""

    redis_url: str
    postgres_url: str
    folder: Path
    replicas: dict[str, list[Replica]]

    def redis(self) -> "redis.Redis":
        return redis.Redis.from_url(self.redis_url)

    def door(self, service: str) -> str:
        return door(self.replicas[service])


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        redis_url = stack.enter_context(redis_server())
        try:
            postgres_url = stack.enter_context(postgres_server())
        except CannotStart as error:
            pytest.skip(str(error))
        environment = {
            "REDIS_URL": redis_url,
            "DATABASE_URL": postgres_url,
            "ARTIFACT_URL": str(tmp_path / "artifacts"),
            "RATCHET_SOURCES": str(tmp_path),
            "RATCHET_REGISTRY_LEASE": "3",
            "RATCHET_SANDBOX_LANES": "1",
            "RATCHET_SANDBOX_BATCH_LEASE": "3",
        }
        replicas = {
            service: [Replica(service, environment, tmp_path / f"{service}-{n}.log") for n in (1, 2)]
            for service in ("registry", "sandbox")
        }
        stage = Stage(redis_url, postgres_url, tmp_path, replicas)
        for replica in (replica for some in replicas.values() for replica in some):
            replica.start()
            stack.callback(replica.end)
        yield stage


# Faults: each returns when it is over


def to_redis(state: Callable[[redis.Redis, float], None]) -> Callable[[Stage], None]:
    def fault(stage: Stage) -> None:
        with stage.redis() as connection:
            state(connection, STOPPED_S)

    return fault


def redis_forgets(stage: Stage) -> None:
    with stage.redis() as connection:
        connection.flushall()


def redis_stands_still(stage: Stage) -> None:
    with stage.redis() as connection:
        process = connection.info("server")["process_id"]
    os.kill(process, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(process, signal.SIGCONT)


def postgres_crashes(stage: Stage) -> None:
    """kill -9 of one of its processes: it ends all connections, and recovers from its log."""
    with psycopg.connect(stage.postgres_url) as connection:
        (process,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def postgres_ends_all_connections(stage: Stage) -> None:
    with psycopg.connect(stage.postgres_url, autocommit=True) as connection:
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}".encode())


def a_replica_of_each_stops(stage: Stage) -> None:
    stopped = [replicas[0] for replicas in stage.replicas.values()]
    for replica in stopped:
        replica.signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    for replica in stopped:
        replica.signal(signal.SIGCONT)


def a_replica_of_each_is_killed(stage: Stage) -> None:
    for replicas in stage.replicas.values():
        replicas[1].kill()
        time.sleep(1.0)
        replicas[1].start()


FAULTS = (
    to_redis(be_full),
    postgres_crashes,
    to_redis(be_a_replica),
    a_replica_of_each_stops,
    redis_stands_still,
    a_replica_of_each_is_killed,
    to_redis(lose_its_replicas),
    redis_forgets,
    postgres_ends_all_connections,
)


# Work


def program(number: int) -> pb.Program:
    """Every third one raises."""
    ending = "raise ValueError" if number % 3 == 0 else f"print({number})"
    return pb.Program(id=f"p{number}", source=f"import time\ntime.sleep(0.2)\n{ending}")


def verdict(number: int) -> int:
    return verdict_pb2.VERDICT_RUNTIME_ERROR if number % 3 == 0 else verdict_pb2.VERDICT_PASSED


def model(folder: Path, seed: int) -> Path:
    """A model of one tensor of two numbers."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    source = folder / f"model-{seed}"
    source.mkdir()
    (source / "config.json").write_text("{}")
    (source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ff", seed, 1.0))
    return source


async def insist(call: Callable[[], Awaitable[object]]) -> object:
    """What a client does: the same again, under the same request id, whatever the platform answers."""

    async def once() -> object:
        with rpc_errors():
            return await call()

    return await retry.patiently(once, PATIENCE, "chaos", retry.OUTSIDE)


async def make_versions(stage: Stage, stop: asyncio.Event) -> dict[str, registry_pb2.CreateVersionRequest]:
    requests: dict[str, registry_pb2.CreateVersionRequest] = {}
    async with channel(stage.door("registry")) as door:
        stub = registry_pb2_grpc.RegistryServiceStub(door)
        while not stop.is_set():
            number = len(requests) + 1
            source = await asyncio.to_thread(model, stage.folder, number)
            request = registry_pb2.CreateVersionRequest(
                request_id=f"request-{number}", model="starter", source_uri=str(source)
            )
            await insist(lambda request=request: stub.CreateVersion(request, timeout=CALL_S))  # type: ignore[misc]
            requests[request.request_id] = request
            await asyncio.sleep(1.0)
    return requests


async def ended(read: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while not await insist(read):
            await asyncio.sleep(0.5)


async def check_versions(stage: Stage, requests: dict[str, registry_pb2.CreateVersionRequest]) -> None:
    """Each request has made one version, with the weights that it named, and no other was made."""
    async with channel(stage.door("registry")) as door:
        stub = registry_pb2_grpc.RegistryServiceStub(door)
        made: dict[int, registry_pb2.Version] = {}
        for request in requests.values():

            async def is_over(request: registry_pb2.CreateVersionRequest = request) -> bool:
                version = (await stub.CreateVersion(request, timeout=CALL_S)).version
                made[version.ref.number] = version
                return bool(version.state != registry_pb2.Version.STATE_PENDING)

            await ended(is_over)
        assert {v.state for v in made.values()} == {registry_pb2.Version.STATE_READY}, made
        assert len(made) == len(requests) == len({v.policy_id for v in made.values()})
        listing = registry_pb2.ListVersionsRequest(model="starter", page_size=200)
        assert len((await stub.ListVersions(listing, timeout=CALL_S)).versions) == len(requests)


async def check_batch(stage: Stage, id: str) -> None:
    """Each program has one verdict, its own."""
    async with channel(stage.door("sandbox")) as door:
        stub = batch_pb2_grpc.BatchServiceStub(door)

        async def is_over() -> bool:
            batch = (await stub.GetBatch(batch_pb2.GetBatchRequest(id=id, caller=CALLER), timeout=CALL_S)).batch
            return bool(batch.state == batch_pb2.Batch.STATE_SUCCEEDED)

        await ended(is_over)
        items = [
            item
            async for reply in stub.WatchBatch(batch_pb2.WatchBatchRequest(id=id, caller=CALLER), timeout=60)
            for item in reply.items
        ]
    assert sorted(item.index for item in items) == list(range(PROGRAMS))
    wrong = [item for item in items if item.execution.verdict != verdict(item.index)]
    assert wrong == []


async def are_up(stage: Stage) -> None:
    for replica in (replica for replicas in stage.replicas.values() for replica in replicas):
        await replica.is_up()


async def test_what_was_accepted_is_done_once_and_rightly(stage: Stage) -> None:
    await are_up(stage)
    async with channel(stage.door("sandbox")) as door:
        request = batch_pb2.CreateBatchRequest(
            request_id="batch", caller=CALLER, programs=[program(number) for number in range(PROGRAMS)]
        )
        created = await batch_pb2_grpc.BatchServiceStub(door).CreateBatch(request, timeout=60)
    stop = asyncio.Event()
    making = asyncio.create_task(make_versions(stage, stop))
    for fault in FAULTS:
        await asyncio.sleep(1.0)
        await asyncio.to_thread(fault, stage)
    stop.set()
    requests = await making
    assert len(requests) >= 3
    await check_versions(stage, requests)
    await check_batch(stage, created.batch.id)
    await are_up(stage)
