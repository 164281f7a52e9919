"""What judges given samples and keeps versions, without a model: gateways, evals, sandboxes and registries over one
Redis, with a cable to each. Two of each over PostgreSQL, or one of each with databases in a folder."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from sqlalchemy import make_url

from ratchet_client import ApiError, Client, Unreachable
from ratchet_kit.service_auth import TOKEN
from ratchet_local.services import PEERS
from ratchet_testing.ports import free_port
from ratchet_testing.postgres import CannotStart, postgres_server
from ratchet_testing.redis_server import redis_server
from ratchet_testing.replicas import Replica

from .cable import Cable, Network, network

T = TypeVar("T")
KEY = "rk_of_the_tests_of_many_judges_and_faults"
SERVICES = ("sandbox", "eval", "registry", "gateway")
ANSWER_S = 30.0
PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Judges:
    replicas: Mapping[str, Sequence[Replica]]
    cables: Mapping[str, Sequence[Cable]]
    """By what they lead to: a service, or "redis"."""
    urls: Sequence[str]
    """Of the gateways."""
    database_url: str
    """PostgreSQL's; empty where each service has a file."""
    redis_url: str
    """Past its cable."""
    folder: Path

    def holder(self, evaluation_id: str) -> Replica:
        """The eval that has the evaluation now."""
        with psycopg.connect(self.database_url) as connection:
            query = "SELECT held_by FROM eval_evaluations WHERE id = %s"
            (name,) = connection.execute(query, [evaluation_id]).fetchone() or ("",)
        return next(one for one in self.replicas["eval"] if name.endswith(f":{one.port}"))

    def are_up(self) -> None:
        for replica in (one for service in SERVICES for one in self.replicas[service]):
            asyncio.run(replica.is_up())


class User:
    """Tries each thing until it is answered, at one gateway after the other."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = cycle(clients)
        self._client = next(self._clients)

    def insist(self, call: Callable[[Client], T]) -> T:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call(self._client)
            except (ApiError, Unreachable) as error:
                is_final = isinstance(error, ApiError) and error.status < 500 and error.status not in (408, 409, 429)
                if is_final or time.monotonic() > deadline:
                    raise
            self._client = next(self._clients)
            time.sleep(0.2)

    def wait_until(self, condition: Callable[[Client], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.insist(condition):
            assert time.monotonic() < deadline, "timed out"
            time.sleep(0.2)


@contextmanager
def user(judges: Judges) -> Iterator[User]:
    with ExitStack() as stack:
        yield User([stack.enter_context(Client(url, KEY, timeout_s=ANSWER_S)) for url in judges.urls])


@contextmanager
def two_of_each(folder: Path) -> Iterator[Judges]:
    try:
        with postgres_server() as url, _running(folder, url, 2) as judges:
            yield judges
    except CannotStart as error:
        pytest.skip(str(error))


@contextmanager
def one_of_each(folder: Path) -> Iterator[Judges]:
    """All their files are in the folder."""
    with _running(folder, "", 1) as judges:
        yield judges


@contextmanager
def _running(folder: Path, database_url: str, count: int) -> Iterator[Judges]:
    with ExitStack() as stack:
        redis_url = stack.enter_context(redis_server())
        judges = _built(folder, stack.enter_context(network()), redis_url, database_url, count)
        for replica in (one for service in SERVICES for one in judges.replicas[service]):
            replica.start()
            stack.callback(replica.end)
        judges.are_up()
        yield judges


def _built(folder: Path, net: Network, redis_url: str, database_url: str, count: int) -> Judges:
    replicas = {
        service: [Replica(service, {}, folder / f"{service}-{n}.log") for n in range(count)] for service in SERVICES
    }
    cables = {service: [net.cable(one.port) for one in some] for service, some in replicas.items()}
    redis_port = make_url(redis_url).port
    assert redis_port is not None
    cables["redis"] = [net.cable(redis_port)]
    common = {
        "REDIS_URL": f"redis://{cables['redis'][0].target}/0",
        "RATCHET_HOME": str(folder),
        "ARTIFACT_URL": str(folder / "artifacts"),
        "RATCHET_SOURCES": str(folder),
        TOKEN: "a-token-of-the-tests-of-many-judges-and-faults",
        "RATCHET_GATEWAY_ADMIN_KEY": KEY,
        "RATCHET_SANDBOX_LANES": "1",
        "RATCHET_EVAL_LEASE": "6",
        "RATCHET_REGISTRY_LEASE": "6",
    }
    nowhere = f"127.0.0.1:{free_port()}"
    targets = {peer: "ipv4:" + ",".join(one.target for one in cables[peer]) for peer in SERVICES if peer in cables}
    urls = []
    for service, some in replicas.items():
        peers = {
            f"RATCHET_{service.upper()}_{peer.upper()}_TARGET": targets.get(peer, nowhere) for peer in PEERS[service]
        }
        for replica in some:
            own = {"DATABASE_URL": database_url or f"sqlite:///{folder}/{service}.db"}
            if service == "gateway":
                own["RATCHET_GATEWAY_HTTP_PORT"] = str(free_port())
                urls.append(f"http://127.0.0.1:{own['RATCHET_GATEWAY_HTTP_PORT']}")
            replica.environment = common | peers | own
    return Judges(replicas, cables, urls, database_url, redis_url, folder)
