"""The health of the platform, as the gateway shows it."""

from dataclasses import dataclass
from datetime import timedelta

from gateway_service.domain.platform import Health, Platform, State
from ratchet_kit.errors import Unavailable

from ..world import World


@dataclass
class Peer:
    health: Health

    async def check(self) -> Health:
        return self.health


async def ready() -> None:
    return None


async def unready() -> None:
    raise Unavailable("the database cannot be reached")


async def test_the_gateway_first_then_its_peers() -> None:
    away, slow = Health(State.AWAY, detail="no answer"), Health(State.SERVING, timedelta(seconds=1))
    platform = Platform({"trainer": Peer(away), "eval": Peer(slow)}, ready)
    assert await platform.health() == [("gateway", Health(State.SERVING)), ("trainer", away), ("eval", slow)]


async def test_a_gateway_without_its_database_says_so() -> None:
    found = await Platform({}, unready).health()
    assert found == [("gateway", Health(State.NOT_SERVING, detail="the database cannot be reached"))]


async def test_over_rest(world: World) -> None:
    async with world.http() as http:
        found = (await http.get("/api/v1/platform")).json()
    assert found == {"services": [{"name": "gateway", "state": "STATE_SERVING", "detail": ""}]}
