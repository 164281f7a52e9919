"""The fixtures. Servers are started when a test first asks for them, once a session, and stopped at its end."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

import pytest
import redis.asyncio
import structlog

from ratchet_kit import service_auth, streams
from ratchet_kit.ids import new_id
from ratchet_kit.sql import Database
from ratchet_testing.clock import ManualClock
from ratchet_testing.gateway import ScriptedGateway, scripted_gateway
from ratchet_testing.postgres import CannotStart, fresh_database, postgres_server
from ratchet_testing.redis_server import redis_server
from ratchet_testing.s3_server import BUCKET, s3_server
from ratchet_testing.sandbox import sandbox_service
from ratchet_testing.tables import empty_database


def pytest_configure(config: pytest.Config) -> None:
    """No example of hypothesis has a deadline: on a busy machine any would be missed, and speed is for tests/bench."""
    if config.pluginmanager.hasplugin("hypothesispytest"):
        import hypothesis

        hypothesis.settings.register_profile("untimed", deadline=None)
        hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a bundled redis-server that only these tests use. It may hold what an earlier test left."""
    with redis_server() as url:
        yield url


@pytest.fixture(name="redis")
async def redis_client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A client of an empty Redis."""
    client = streams.connect(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture(scope="module")
def sandbox_target() -> Iterator[str]:
    """host:port of a sandbox-service that only these tests use; it may still be starting."""
    with sandbox_service() as target:
        yield target


@pytest.fixture(scope="session", autouse=True)
def platform_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Services that are started here, and their clients, have a token of the tests' own, and take models and sets of
    problems from the tests' folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_SOURCES", str(tmp_path_factory.getbasetemp()))
        patch.setenv(service_auth.TOKEN, service_auth.new_token())
        patch.delenv(service_auth.DIGEST, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def plain_tracebacks() -> None:
    """structlog's own draw the values of all variables: a test that logs ten of them takes seconds."""
    *others, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*others, renderer])


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The URL of a PostgreSQL server's own database; skips where PostgreSQL cannot start, and says why."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(postgres_server())
        except CannotStart as error:
            pytest.skip(str(error))
        yield url


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database of this test's own."""
    with fresh_database(postgres_server_url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Runs the test on both: the URL of an empty SQLite, then of an empty PostgreSQL database."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """Runs the test on both: the tables of the service whose test it is."""
    async with _opened(request) as database:
        yield database


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
async def database_or_memory(request: pytest.FixtureRequest) -> AsyncIterator[Database | None]:
    """Runs the test of a contract on `database`'s, and on a store in memory: None."""
    if request.param == "memory":
        yield None
        return
    async with _opened(request) as database:
        yield database


def _opened(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Database]:
    package = f"{request.path.relative_to(request.config.rootpath).parts[1]}_service"
    if request.param == "sqlite":
        return empty_database(package)
    return Database.opened(request.getfixturevalue("postgres_url"), package)


@pytest.fixture(scope="session")
def s3_server_environment() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def s3_url(s3_server_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL in an S3 server that only these tests use, with nothing below it; clients find the server and its keys."""
    for name, value in s3_server_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{new_id('test')}"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is set by hand."""
    return ManualClock()


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    """An HTTP server in the gateway's place, for tests of the SDK and of the command."""
    with scripted_gateway() as server:
        yield server
