"""The whole service as main builds it: sockets, SQLite, gRPC to its peers; only what is behind them is scripted."""

import asyncio
import json
import ssl
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import grpc
import httpx
import openai
import pytest

from gateway_service import main
from gateway_service.settings import Settings
from gateway_service.wiring import Intervals
from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.gateway.v1 import key_pb2, release_pb2
from ratchet.gateway.v1.gateway_pb2_grpc import GatewayServiceStub
from ratchet.gateway.v1.key_pb2_grpc import KeyServiceStub
from ratchet.gateway.v1.release_pb2_grpc import ReleaseServiceStub
from ratchet_kit import client, service_auth
from ratchet_kit.errors import FailedPrecondition, Unavailable
from ratchet_policies import ChatPrompt, convert
from ratchet_problems import Message
from ratchet_testing import free_port

pytestmark = pytest.mark.integration
HI = [{"role": "user", "content": "say hi"}]
KEY = "rk_test_0123456789abcdef0123456789"


@dataclass(frozen=True)
class Door:
    url: str
    target: str


@pytest.fixture(autouse=True)
def a_short_drain(monkeypatch) -> None:
    quick = partial(main.provision, intervals=Intervals(drain=timedelta(seconds=0.1)))
    monkeypatch.setattr(main, "provision", quick)


@pytest.fixture
def settings(tmp_path, peers) -> Settings:
    return Settings(
        port=0,
        http_port=free_port(),
        grace=timedelta(seconds=2),
        log_level="WARNING",
        database_url=f"sqlite:///{tmp_path / 'gateway.db'}",
        admin_key_file=tmp_path / "admin.key",
        admin_key=KEY,
        trainer_target=f"127.0.0.1:{free_port()}",
        rollout_target=peers,
        registry_target=peers,
        load_wait=timedelta(seconds=5),
    )


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[Door]:
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(main.run(settings, on_ready=ready.set_result, stop=stop))
    await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        await running
    try:
        yield Door(f"http://127.0.0.1:{settings.http_port}", f"127.0.0.1:{ready.result()}")
    finally:
        stop.set()
        await running


@pytest.fixture
async def door(settings) -> AsyncIterator[Door]:
    async with started(settings) as door:
        yield door


@pytest.fixture
async def http(door) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=door.url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        yield client


async def test_openais_client(door) -> None:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{door.url}/v1", max_retries=0) as client:
        answer = await client.chat.completions.create(model="starter", messages=HI, max_tokens=8)
        assert (answer.choices[0].message.content, answer.model) == ("say hi", "starter@1")
        stream = await client.chat.completions.create(model="starter@2", messages=HI, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "say hi"


async def test_grpc_with_a_key(door) -> None:
    request = pb.CompleteRequest(
        model=model_pb2.ModelRef(model="starter"),
        prompt=convert.prompt_to_proto(ChatPrompt((Message("user", "say hi"),))),
    )
    key = (("authorization", f"Bearer {KEY}"),)
    async with client.channel(door.target) as channel:
        stub = GatewayServiceStub(channel)
        releases, keys = ReleaseServiceStub(channel), KeyServiceStub(channel)
        answer = await stub.Complete(request, metadata=key)
        assert answer.version == model_pb2.VersionRef(model="starter", number=1)
        assert (answer.completions[0].text, answer.prompt_tokens) == ("say hi", 2)
        stream = stub.StreamComplete(pb.StreamCompleteRequest(request=request), metadata=key)
        pieces = [piece async for piece in stream]
        assert "".join(piece.delta.text for piece in pieces) == "say hi"
        told = dict(await stream.initial_metadata())
        assert (told["x-ratchet-version"], told["x-ratchet-policy-id"]) == ("starter@1", answer.policy_id)
        assert float(told["x-ratchet-overhead-ms"]) >= 0
        scored = await stub.CreateFeedback(pb.CreateFeedbackRequest(completion_id=answer.id, score=1), metadata=key)
        assert scored.score == 1
        for call in (stub.Complete(request), releases.ListReleases(release_pb2.ListReleasesRequest())):
            with pytest.raises(grpc.RpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        new = await keys.CreateKey(key_pb2.CreateKeyRequest(name="app"), metadata=key)
        (entry,) = (await keys.ListAuditEntries(key_pb2.ListAuditEntriesRequest(), metadata=key)).entries
        assert (entry.method, entry.resource, entry.actor_name) == ("KeyService.CreateKey", new.key.id, "bootstrap")
        as_app = (("authorization", f"Bearer {new.secret}"),)
        assert (await stub.Complete(request, metadata=as_app)).policy_id == answer.policy_id
        with pytest.raises(grpc.RpcError) as denied:
            await keys.ListKeys(key_pb2.ListKeysRequest(), metadata=as_app)
        assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.RpcError) as unknown:
            await releases.GetRelease(release_pb2.GetReleaseRequest(id="rel_9"), metadata=key)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def create_release(http: httpx.AsyncClient, samples: int) -> str:
    stages = [{"percent": percent, "min_samples": samples} for percent in (50, 100)]
    spec = {"candidate": {"model": "starter", "number": 2}, "gate_id": "gate_2", "stages": stages}
    # On a busy machine the times of two equal engines differ by more than the default allows.
    spec |= {"unproven": "UNPROVEN_PROCEED", "watch": "0s", "bounds": {"max_latency_ratio": 1000}}
    response = await http.post("/api/v1/releases", json={"spec": spec})
    assert response.status_code == 200, response.text
    return response.json()["release"]["id"]


async def until_ended(http: httpx.AsyncClient, release_id: str) -> dict:
    """Asks until the release has ended; what the watch said is what is returned."""
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            body = {"model": "starter", "messages": HI}
            (await http.post("/v1/chat/completions", json=body)).raise_for_status()

    asking = asyncio.create_task(ask())
    async with http.stream("GET", f"/api/v1/releases/{release_id}/watch") as response:
        events = [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: ")]
    done.set()
    await asking
    return json.loads(events[-1])["release"]


async def test_a_release_succeeds_under_traffic(http, engine, registry) -> None:
    release = await until_ended(http, await create_release(http, samples=20))
    assert release["state"] == "STATE_SUCCEEDED"
    assert [event["percent"] for event in release["events"]] == [50, 95, 95]
    assert registry.aliases["starter", "champion"] == 2
    async with asyncio.timeout(5):
        while "starter@1" in engine.policies:
            await asyncio.sleep(0.05)


async def test_a_release_rolls_back_and_no_answer_fails(http, engine, registry) -> None:
    def die(name: str) -> None:
        if name == "starter@2":
            raise FailedPrecondition("the engine died")

    engine.before_answer = die
    release = await until_ended(http, await create_release(http, samples=20))
    assert release["state"] == "STATE_ROLLED_BACK"
    assert "error rate 100.0 %" in release["events"][-1]["reason"]
    assert registry.aliases["starter", "champion"] == 1


async def test_a_release_goes_on_after_a_restart(settings, registry) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with started(settings) as door, httpx.AsyncClient(base_url=door.url, headers=headers) as http:
        release_id = await create_release(http, samples=20)
    async with started(settings) as door, httpx.AsyncClient(base_url=door.url, headers=headers) as http:
        assert (await until_ended(http, release_id))["state"] == "STATE_SUCCEEDED"


async def test_a_peer_that_is_away_is_503(http) -> None:
    response = await http.get("/api/v1/runs", timeout=20)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "UNAVAILABLE")
    assert (await http.get("/readyz")).status_code == 200


async def test_a_port_in_use_is_said(settings) -> None:
    async with started(settings):
        with pytest.raises(FailedPrecondition, match="cannot listen"):
            async with started(settings.model_copy(update={"port": 0})):
                pass


async def test_an_unreachable_database_is_said(settings) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    with pytest.raises(Unavailable):
        async with started(settings.model_copy(update={"database_url": url})):
            pass


def test_the_key_file_is_made_once_and_private(settings) -> None:
    without = settings.model_copy(update={"admin_key": None})
    key = main.admin_key(without)
    assert key.startswith("rk_")
    assert main.admin_key(without) == key
    assert stat.S_IMODE(without.admin_key_file.stat().st_mode) == 0o600


async def certify(cert: Path, key: Path) -> None:
    await asyncio.to_thread(
        subprocess.run,
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"),
            *("-keyout", key, "-out", cert, "-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )


async def status_by(cert: Path, port: int) -> int:
    """Of a new connection that trusts the certificate alone."""
    trusted = ssl.create_default_context(cafile=cert)
    async with httpx.AsyncClient(verify=trusted, headers={"Authorization": f"Bearer {KEY}"}) as client:
        return (await client.get(f"https://127.0.0.1:{port}/v1/models")).status_code


async def test_https_where_a_certificate_is_set(settings, tmp_path, monkeypatch) -> None:
    """Another that is put in its place is shown without a restart."""
    monkeypatch.setattr(service_auth, "PERIOD", 0.05)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    await certify(cert, key)
    secured = settings.model_copy(update={"tls_cert_file": cert, "tls_key_file": key})
    async with started(secured):
        assert await status_by(cert, settings.http_port) == 200
        async with httpx.AsyncClient() as plain:
            with pytest.raises(httpx.TransportError):
                await plain.get(f"http://127.0.0.1:{settings.http_port}/healthz")
        await certify(cert, key)
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await status_by(cert, settings.http_port) == 200
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)


async def test_a_certificate_that_cannot_be_used_is_said(settings, tmp_path) -> None:
    wrong = settings.model_copy(update={"tls_cert_file": tmp_path / "none", "tls_key_file": tmp_path / "none"})
    with pytest.raises(FailedPrecondition, match="certificate"):
        await main.run(wrong)
