"""A walk over every door of the gateway: without a key, with one that is bad, or has expired, of a wrong scope."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool

from gateway_service.auth import grpc_auth
from gateway_service.domain.keys.key import Scope
from gateway_service.rest.door import KEYED
from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from ratchet_kit.errors import DataLoss, RatchetError, Unauthenticated, Unavailable
from ratchet_testing import serving

from ..world import ADMIN_KEY, World

OPEN = {"/healthz", "/readyz", "/docs", "/docs/files", "/openapi.json", "/", "/console", "/login"}
"""What everybody may see: that it lives, what it offers, the files of the console, and who signs people in."""
FOR_INFERENCE = {
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/models",
    "/v1/models/{model:path}",
    "/generate",
    "/api/v1/feedback",
}
RPCS_FOR_INFERENCE = {"Complete", "StreamComplete", "CreateFeedback"}


def routes(world: World) -> list[tuple[str, str]]:
    """Method and path of every route."""
    found: list[tuple[str, str]] = []
    waiting: list[Any] = list(world.gateway.http.routes)
    while waiting:
        route = waiting.pop()
        if inner := getattr(route, "original_router", None):
            waiting += inner.routes
        else:
            methods = getattr(route, "methods", None) or {"GET"}  # of a folder of files, none
            found += [(method, route.path) for method in sorted(methods - {"HEAD"})]
    return sorted(found)


def rpcs(world: World) -> list[Any]:
    pool = descriptor_pool.Default()
    return [method for name in world.gateway.servicers.backends for method in pool.FindServiceByName(name).methods]


@pytest.fixture
async def bad_keys(world: World) -> dict[str, str]:
    """What is sent, by what is wrong with it."""
    keys = world.gateway.keys
    revoked = await keys.create("", "revoked", [Scope.ADMIN])
    await keys.revoke(revoked.key.id)
    end = world.clock.now() + timedelta(minutes=1)
    expired = await keys.create("", "expired", [Scope.ADMIN], expire_time=end)
    assert (await keys.authenticate(expired.secret)).name == "expired"
    world.clock.advance(timedelta(minutes=1))
    return {
        "none": "",
        "empty": "Bearer ",
        "unknown": "Bearer rk_" + "0" * 64,
        "no bearer": expired.secret,
        "basic": "Basic cms6",
        "digest": f"Bearer {expired.key.digest}",
        "revoked": f"Bearer {revoked.secret}",
        "expired": f"Bearer {expired.secret}",
    }


def filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "1", path)


async def test_every_route_refuses_a_bad_key(world: World, bad_keys: dict[str, str]) -> None:
    walked = [(method, path) for method, path in routes(world) if path not in OPEN]
    assert len(walked) > 45
    async with world.http() as http:
        http.headers.pop("authorization")
        for method, path in walked:
            for name, sent in bad_keys.items():
                headers = {"authorization": sent} if sent else {}
                reply = await http.request(method, filled(path), headers=headers, json={})
                assert reply.status_code == 401, (method, path, name)
                assert reply.headers["www-authenticate"] == "Bearer"


async def test_every_route_refuses_a_wrong_scope(world: World) -> None:
    new = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    app = httpx.ASGITransport(world.gateway.http, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=app, base_url="http://gateway") as http:
        http.headers["authorization"] = f"Bearer {new.secret}"
        for method, path in routes(world):
            if path in OPEN:
                continue
            reply = await http.request(method, filled(path), json={})
            assert (reply.status_code == 403) == (path not in FOR_INFERENCE), (method, path, reply.text)
            assert reply.status_code != 401


SECRETIVE = ("keys", "audit", "traffic", "webhooks")
"""First words of routes below /api/v1 that only an administrator may look at."""
ASKING = ("/plan", "/compare", "/rank")
CHANGED_BY = {
    Scope.READ: set[str](),
    Scope.TRAIN: {
        "runs",
        "evaluations",
        "preferences",
        "models",
        "datasets",
        "rewards",
        "batches",
        "workflows",
        "schedules",
    },
    Scope.RELEASE: {"releases", "experiments", "aliases"},
}


@pytest.mark.parametrize("role", list(CHANGED_BY))
async def test_a_role_may_do_its_own_and_no_more(role: Scope, world: World) -> None:
    new = await world.gateway.keys.create("", "role", [role])
    app = httpx.ASGITransport(world.gateway.http, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=app, base_url="http://gateway") as http:
        http.headers["authorization"] = f"Bearer {new.secret}"
        for method, path in routes(world):
            if not path.startswith("/api/v1/") or path in FOR_INFERENCE or "/programs" in path:
                continue
            is_served = path.endswith(("/load", "/unload"))
            is_release = is_served or ("/aliases/" in path and method != "GET")
            thing = "aliases" if is_release else path.split("/")[3]
            may = thing not in SECRETIVE if method == "GET" or path.endswith(ASKING) else thing in CHANGED_BY[role]
            reply = await http.request(method, filled(path), json={})
            assert (reply.status_code != 403) == may, (role, method, path, reply.text)


def test_what_is_open_is_known(world: World) -> None:
    paths = {path for _, path in routes(world)}
    assert paths >= OPEN | FOR_INFERENCE
    assert {path for path in paths if not path.startswith(KEYED)} == OPEN


@pytest.fixture
async def door(world: World) -> AsyncIterator[grpc.aio.Channel]:
    wrappers = [grpc_auth(world.gateway.authenticator, world.gateway.usage)]
    async with serving(world.gateway.servicers.add_to, wrappers=wrappers) as target:
        async with grpc.aio.insecure_channel(target) as channel:
            yield channel


async def status_of(channel: grpc.aio.Channel, rpc: Any, *sent: str) -> grpc.StatusCode:
    path = f"/{rpc.containing_service.full_name}/{rpc.name}"
    metadata = [("authorization", one) for one in sent if one]
    call = (channel.unary_stream if rpc.server_streaming else channel.unary_unary)(path)(b"", metadata=metadata)
    try:
        _ = [reply async for reply in call] if rpc.server_streaming else await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_every_rpc_refuses_a_bad_key(world: World, door: grpc.aio.Channel, bad_keys: dict[str, str]) -> None:
    assert len(rpcs(world)) >= 20
    for rpc in rpcs(world):
        for name, sent in bad_keys.items():
            assert await status_of(door, rpc, sent) is grpc.StatusCode.UNAUTHENTICATED, (rpc.full_name, name)
        several = [f"Bearer {ADMIN_KEY}", f"Bearer {ADMIN_KEY}"]
        assert await status_of(door, rpc, *several) is grpc.StatusCode.UNAUTHENTICATED, rpc.full_name


async def test_every_rpc_refuses_a_wrong_scope(door: grpc.aio.Channel, world: World) -> None:
    new = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    for rpc in rpcs(world):
        refused = await status_of(door, rpc, f"Bearer {new.secret}") is grpc.StatusCode.PERMISSION_DENIED
        assert refused == (rpc.name not in RPCS_FOR_INFERENCE), rpc.full_name


@pytest.mark.parametrize(
    ("fault", "status", "code", "said"),
    [
        (
            Unavailable(
                "connections to all backends failing; last error: UNKNOWN: ipv4:10.0.0.5:8706: Connection refused"
            ),
            503,
            grpc.StatusCode.UNAVAILABLE,
            "connections to all backends failing",
        ),
        (DataLoss("/srv/weights is cut short"), 500, grpc.StatusCode.DATA_LOSS, "[path] is cut short"),
        (
            Unauthenticated("a call of this service carries the services' token"),
            503,
            grpc.StatusCode.UNAVAILABLE,
            "a part of the platform does not take the gateway's token",
        ),
    ],
)
async def test_a_fault_of_the_platforms_is_no_fault_of_the_key_and_names_no_place(
    door: grpc.aio.Channel, world: World, fault: RatchetError, status: int, code: grpc.StatusCode, said: str
) -> None:
    new = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    world.registry.away = fault
    async with world.http() as http:
        headers = {"authorization": f"Bearer {new.secret}"}
        for path, body in (("/generate", {"prompt": "x"}), ("/v1/completions", {"prompt": "x"})):
            reply = await http.post(path, json=body | {"model": "away"}, headers=headers)
            assert (reply.status_code, reply.json()["error"]["message"]) == (status, said)
    request = gateway_pb2.CompleteRequest(model=model_pb2.ModelRef(model="away"))
    request.prompt.text = "x"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        metadata = (("authorization", f"Bearer {new.secret}"),)
        await gateway_pb2_grpc.GatewayServiceStub(door).Complete(request, metadata=metadata)
    assert (refused.value.code(), refused.value.details()) == (code, said)
