"""The health of the platform, as the gateway shows it."""

from dataclasses import dataclass
from datetime import timedelta

import ratchet_benchmarks
import ratchet_rewards
from gateway_service.domain.platform import Health, Platform, State
from ratchet_kit.errors import Unavailable
from ratchet_policies import Engine, Node, PolicyState

from ..doubles import ScriptedNodes
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
    platform = Platform({"trainer": Peer(away), "eval": Peer(slow)}, ScriptedNodes(), ready)
    assert await platform.health() == [("gateway", Health(State.SERVING)), ("trainer", away), ("eval", slow)]


async def test_a_gateway_without_its_database_says_so() -> None:
    found = await Platform({}, ScriptedNodes(), unready).health()
    assert found == [("gateway", Health(State.NOT_SERVING, detail="the database cannot be reached"))]


async def test_over_rest(world: World) -> None:
    async with world.http() as http:
        found = (await http.get("/api/v1/platform")).json()
    assert found == {"services": [{"name": "gateway", "state": "STATE_SERVING", "detail": ""}]}


async def test_nodes_are_listed_drained_and_resumed(world: World) -> None:
    engine = Engine("starter@1", PolicyState.READY, "sha256:a", sequences=2)
    world.nodes.found["10.0.0.1:8703"] = Node("10.0.0.1:8703", capacity=6, engines=(engine,))
    async with world.http() as http:
        [listed] = (await http.get("/api/v1/nodes")).json()["nodes"]
        assert (listed["address"], listed["state"], listed["capacity"]) == ("10.0.0.1:8703", "STATE_SERVING", 6)
        assert listed["engines"][0]["sequences"] == 2
        drained = await http.post("/api/v1/nodes/10.0.0.1:8703/drain", json={})
        assert drained.json()["node"]["state"] == "STATE_DRAINING"
        resumed = await http.post("/api/v1/nodes/10.0.0.1%3A8703/resume", json={})
        assert resumed.json()["node"]["state"] == "STATE_SERVING"
        assert (await http.post("/api/v1/nodes/nowhere/drain", json={})).status_code == 404


async def test_the_catalogue_says_what_the_libraries_and_protos_define(world: World) -> None:
    async with world.http() as http:
        found = (await http.get("/api/v1/catalogue")).json()
    assert {"ALGORITHM_GRPO", "ALGORITHM_REWARD_MODEL"} < set(found["algorithms"])
    assert {"MEASURE_QUALITY", "MEASURE_NAMED"} < set(found["measures"])
    assert not [name for names in found.values() for name in names if name.endswith("UNSPECIFIED")]
    assert set(found["rewards"]) == {*ratchet_rewards.COMPONENTS, *ratchet_rewards.PRESETS} - {"preference"}
    assert found["problem_sets"] == list(ratchet_benchmarks.OWN)
    assert found["benchmarks"] == list(ratchet_benchmarks.BENCHMARKS)
