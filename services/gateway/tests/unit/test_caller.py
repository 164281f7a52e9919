"""Who did what: the key of the call is with what it changed, and with what it made other services do."""

from typing import Any

from gateway_service.domain.keys.key import Scope
from ratchet_kit import logs

from ..world import ADMIN_KEY, World

SPEC = {"candidate": {"model": "starter", "number": 2}, "gate_id": "gate_2"}


async def test_keys_and_releases_say_who_made_them(world: World) -> None:
    boot = (await world.gateway.keys.authenticate(ADMIN_KEY)).id
    boss = await world.gateway.keys.create("", "boss", [Scope.ADMIN])
    async with world.http() as http:
        made = (await http.post("/api/v1/keys", json={"name": "app", "models": ["starter"]})).json()["key"]
        assert (made["actor"], made["models"]) == (boot, ["starter"])
        http.headers["authorization"] = f"Bearer {boss.secret}"
        revoked = (await http.delete(f"/api/v1/keys/{made['id']}")).json()["key"]
        assert (revoked["actor"], revoked["revoke_actor"]) == (boot, boss.key.id)
        release = (await http.post("/api/v1/releases", json={"spec": SPEC})).json()["release"]
        assert release["actor"] == boss.key.id
        http.headers["authorization"] = f"Bearer {ADMIN_KEY}"
        rolled_back = (await http.post(f"/api/v1/releases/{release['id']}/rollback", json={})).json()["release"]
        assert rolled_back["actor"] == boss.key.id
        assert rolled_back["events"][-1]["actor"] == boot


class Registry:
    """Notes on whose behalf it is called."""

    def __init__(self) -> None:
        self.actors: list[Any] = []

    async def SetAlias(self, request: Any) -> Any:
        from ratchet.registry.v1 import registry_pb2

        self.actors.append(logs.context().get("actor"))
        return registry_pb2.SetAliasResponse()


async def test_a_call_of_another_service_is_made_on_the_keys_behalf(world: World) -> None:
    registry = Registry()
    world.stubs["ratchet.registry.v1.RegistryService"] = registry
    for name in ("GetModel", "ListModels"):
        setattr(registry, name, None)

    class Stub:
        def __getattr__(self, name: str) -> Any:
            return getattr(registry, name, None)

    world.stubs["ratchet.registry.v1.RegistryService"] = Stub()
    await world.start()
    boot = (await world.gateway.keys.authenticate(ADMIN_KEY)).id
    async with world.http() as http:
        reply = await http.put("/api/v1/models/starter/aliases/champion", json={"number": 1})
        assert reply.status_code == 200, reply.text
    assert registry.actors == [boot]
