"""Over sockets: a champion whose engine is killed is answered for by the one before it, and a caller's end is the
engine's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import grpc
import httpx
import pytest

from gateway_service.settings import Settings
from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.gateway.v1.gateway_pb2_grpc import GatewayServiceStub
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit import client
from ratchet_kit.names import CHAMPION
from ratchet_policies import Generation, PolicySpec, TextPrompt, convert
from ratchet_testing import free_port, serving

from ..doubles import ScriptedEngine, ScriptedRegistry
from .conftest import RolloutServicer
from .test_service import KEY, Door, started

pytestmark = pytest.mark.integration
CHAT = {"model": "starter", "messages": [{"role": "user", "content": "say hi"}]}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


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
        replicas=1,
    )


@pytest.fixture
async def door(settings: Settings) -> AsyncIterator[Door]:
    async with started(settings) as door:
        yield door


async def answered_by(http: httpx.AsyncClient) -> tuple[str, str]:
    response = await http.post("/v1/chat/completions", json=CHAT, timeout=30)
    assert response.status_code == 200, response.text
    assert response.json()["model"] == response.headers["x-ratchet-version"]
    assert float(response.headers["x-ratchet-engine-ms"]) > 0
    return response.json()["model"], response.headers.get("x-ratchet-arm", "")


async def test_every_request_is_answered_while_the_champions_node_is_dead(
    settings: Settings, engine: ScriptedEngine, registry: ScriptedRegistry
) -> None:
    """Version 1 is on a node that has no more room, version 2, the champion, on one that dies."""
    registry.aliases["starter", CHAMPION], registry.before["starter"] = 2, 1
    mortal = ScriptedEngine(capacity=1)
    engine.capacity = 1
    await engine.load(PolicySpec("starter@1", "starter/1"))

    def add(server):
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(RolloutServicer(mortal), server)
        return ["ratchet.rollout.v1.RolloutService"]

    async with AsyncExitStack() as node:
        address = await node.enter_async_context(serving(add))
        targets = settings.model_copy(update={"rollout_target": f"{settings.rollout_target},{address}"})
        async with started(targets) as door, httpx.AsyncClient(base_url=door.url, headers=AUTHORIZED) as http:
            assert await answered_by(http) == ("starter@2", "")
            await node.aclose()
            answers = [await answered_by(http) for _ in range(20)]
            assert set(answers) == {("starter@1", "fallback")}
            pinned = await http.post("/v1/chat/completions", json=CHAT | {"model": "starter@2"}, timeout=30)
            assert pinned.status_code == 503
            engine.capacity = 2
            async with asyncio.timeout(20):
                while await answered_by(http) != ("starter@2", ""):
                    await asyncio.sleep(0.1)


@pytest.fixture
def generation(engine: ScriptedEngine) -> tuple[asyncio.Event, asyncio.Event]:
    """Of an engine that takes for ever: begun, and ended from outside."""
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def generate(*args: object) -> Generation:
        begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    engine.generate = generate
    return begun, cancelled


async def test_a_client_of_http_that_gives_up_ends_the_generation(door: Door, generation) -> None:
    begun, cancelled = generation
    async with httpx.AsyncClient(base_url=door.url, headers=AUTHORIZED) as http, asyncio.timeout(20):
        asked = asyncio.create_task(http.post("/v1/chat/completions", json=CHAT, timeout=60))
        await begun.wait()
        asked.cancel()
        await cancelled.wait()


async def test_a_deadline_of_grpc_ends_the_generation(door: Door, generation) -> None:
    _, cancelled = generation
    request = pb.CompleteRequest(
        model=model_pb2.ModelRef(model="starter"), prompt=convert.prompt_to_proto(TextPrompt("say hi"))
    )
    async with client.channel(door.target) as channel, asyncio.timeout(20):
        ask = partial(GatewayServiceStub(channel).Complete, metadata=(("authorization", f"Bearer {KEY}"),))
        with pytest.raises(grpc.RpcError) as late:
            await ask(request, timeout=2)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await cancelled.wait()
