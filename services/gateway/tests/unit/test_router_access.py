"""What an inference key reaches: the models it was given, and versions that are released."""

import httpx
import pytest

from gateway_service.domain.keys.key import Scope
from ratchet_kit.errors import InvalidArgument

from ..world import World


async def status(world: World, secret: str, model: str, stream: bool = False) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "say hi"}], "stream": stream}
    transport = httpx.ASGITransport(world.gateway.http, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        http.headers["authorization"] = f"Bearer {secret}"
        reply = await http.post("/v1/chat/completions", json=body)
        shown = await http.get(f"/v1/models/{model}")
    assert (shown.status_code == 200) == (reply.status_code == 200)
    return reply.status_code


async def test_only_released_versions(world: World) -> None:
    app = (await world.gateway.keys.create("", "app", [Scope.INFERENCE])).secret
    admin = (await world.gateway.keys.create("", "boss", [Scope.ADMIN])).secret
    assert [await status(world, app, f"starter@{number}") for number in (1, 2, 3, 99)] == [200, 403, 403, 403]
    assert await status(world, app, "starter@2", stream=True) == 403
    assert [await status(world, admin, f"starter@{number}") for number in (1, 2, 3, 99)] == [200, 200, 200, 404]
    assert "starter@3" not in world.engine.policies or world.engine.loads["starter@3"] == 1
    world.registry.aliases["starter", "candidate"] = 3
    assert await status(world, app, "starter@3") == 200
    assert await status(world, app, "starter:candidate") == 200
    await world.release(candidate=2)
    assert await status(world, app, "starter@2") == 200


async def test_only_its_models(world: World) -> None:
    world.registry.versions["other"] = 1
    world.registry.aliases["other", "champion"] = 1
    app = (await world.gateway.keys.create("", "app", [Scope.INFERENCE], ["other"])).secret
    for model in ("starter", "starter@1", "starter:champion"):
        assert await status(world, app, model) == 403
    for model in ("other", "other@1", "other:champion"):
        assert await status(world, app, model) == 200
    transport = httpx.ASGITransport(world.gateway.http)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        listed = await http.get("/v1/models", headers={"authorization": f"Bearer {app}"})
    assert [model["id"] for model in listed.json()["data"]] == ["other"]


async def test_a_keys_models_and_end_are_checked(world: World) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await world.gateway.keys.create("", "app", [Scope.INFERENCE], ["other", "No Name"], world.clock.now())
    assert [violation.field for violation in refused.value.violations] == ["models[1]", "expire_time"]
