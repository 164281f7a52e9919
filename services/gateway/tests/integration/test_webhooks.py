"""A webhook from the stream of events to an endpoint on this machine: Redis, SQLite and HTTP for real."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook as Verifier

from gateway_service import main
from gateway_service.adapters.webhook_sender import HttpSender
from gateway_service.settings import Settings
from ratchet_kit import streams
from ratchet_kit.errors import Unavailable
from ratchet_kit.events import EventPublisher
from ratchet_testing.ports import free_port

pytestmark = pytest.mark.integration


class Endpoint:
    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], str]] = []
        self.status = 204
        self.url = ""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            found.received.append((dict(self.headers), body))
            self.send_response(found.status)
            self.send_header("location", f"{found.url}/elsewhere")
            self.send_header("set-cookie", f"number{len(found.received)}=x")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


async def test_an_event_of_a_service_reaches_an_endpoint(
    endpoint: Endpoint, redis_url: str, peers: str, tmp_path: Path
) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'gateway.db'}",
        redis_url=redis_url,
        admin_key_file=tmp_path / "admin.key",
        webhook_urls=endpoint.url,
        rollout_target=peers,
        registry_target=peers,
    )
    async with streams.connect(redis_url) as redis, main.provision(settings) as service:
        await redis.flushall()
        new = await service.webhooks.create("", f"{endpoint.url}/hook", ["run.succeeded"])
        publisher = EventPublisher(redis, "trainer")
        for state in ("RUNNING", "SUCCEEDED"):
            await publisher.publish("runs/run_1", state, datetime.now(UTC), {"version": "starter@2"})
        stop = asyncio.Event()
        working = [asyncio.create_task(work(stop)) for work in (service.deliverer.run, service.deliverer.listen)]
        async with asyncio.timeout(60):
            while not (await service.webhooks.deliveries(new.webhook.id, 0, "")).items or not endpoint.received:
                await asyncio.sleep(0.02)
        stop.set()
        await asyncio.gather(*working)
    ((headers, body),) = endpoint.received
    event = Verifier(new.secret).verify(body, headers)
    assert event["type"] == "run.succeeded"
    assert event["data"] == {"resource": "runs/run_1", "version": "starter@2"}


async def test_a_redirect_is_not_followed_and_what_does_not_answer_is_an_error(endpoint: Endpoint) -> None:
    endpoint.status = 307
    async with httpx.AsyncClient() as client:
        sender = HttpSender(client)
        assert await sender.send(endpoint.url, {}, "{}") == 307
        assert len(endpoint.received) == 1
        with pytest.raises(Unavailable, match="could not be reached"):
            await sender.send(f"http://127.0.0.1:{free_port()}", {}, "{}")


async def test_an_endpoint_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway_service.adapters.webhook_sender.LIMIT", timedelta(seconds=0.1))
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with httpx.AsyncClient() as client:
        with pytest.raises(Unavailable, match="did not answer"):
            await HttpSender(client).send(f"http://127.0.0.1:{port}", {}, "{}")
    silent.close()


async def test_no_cookie_of_an_endpoint_is_kept(endpoint: Endpoint) -> None:
    """They would go to the next webhook of the same host, and be more at each delivery."""
    async with httpx.AsyncClient() as client:
        sender = HttpSender(client)
        for path in ("one", "two"):
            await sender.send(f"{endpoint.url}/{path}", {}, "{}")
        assert list(client.cookies.jar) == []
    assert [headers.get("cookie") for headers, _ in endpoint.received] == [None, None]
