import asyncio
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from gateway_service.domain.serving import Unservable
from ratchet_kit.errors import DataLoss, FailedPrecondition, Failure, InvalidArgument, NotFound, Unavailable
from ratchet_kit.names import VersionRef
from ratchet_policies import Policy, PolicySpec, PolicyState, Sampling, TextPrompt

from ..doubles import policy_id_of
from ..world import World

ONE, TWO, THREE = (VersionRef("starter", number) for number in (1, 2, 3))
PROMPT = TextPrompt("say hi")


async def test_loads_once_for_many_requests(world: World) -> None:
    world.engine.loads_at_once = False

    async def finish() -> None:
        await asyncio.sleep(0.01)
        world.engine.finish_loading("starter@1")

    ids = await asyncio.gather(*(world.gateway.serving.ensure(ONE) for _ in range(20)), finish())
    assert set(ids) == {policy_id_of("starter/1"), None}
    assert world.engine.loads["starter@1"] == 1


async def test_a_request_waits_only_so_long(world: World) -> None:
    world.engine.loads_at_once = False
    with pytest.raises(Unavailable, match="is being loaded"):
        await world.gateway.serving.ensure(ONE, wait=timedelta(0))


async def test_loads_again_what_was_lost(world: World) -> None:
    await world.gateway.serving.generate(ONE, PROMPT, Sampling())
    world.engine.policies.clear()  # the rollout service restarted
    generation = await world.gateway.serving.generate(ONE, PROMPT, Sampling())
    assert generation.completions[0].text == "say hi"
    world.engine.policies.clear()
    deltas = [delta async for delta in world.gateway.serving.stream(ONE, PROMPT, Sampling())]
    assert "".join(delta.completion.text for delta in deltas) == "say hi"
    assert world.engine.loads["starter@1"] == 3


async def test_loads_again_what_failed(world: World) -> None:
    await world.gateway.serving.ensure(ONE)
    world.engine.policies["starter@1"] = Policy("starter@1", PolicyState.FAILED, failure=Failure("INTERNAL", "died"))
    await world.gateway.serving.generate(ONE, PROMPT, Sampling())
    assert world.engine.loads["starter@1"] == 2


async def test_adopts_what_is_loaded(world: World) -> None:
    await world.engine.load(PolicySpec("starter@1", "starter/1"))
    await world.gateway.serving.ensure(ONE)
    assert world.engine.loads["starter@1"] == 1


async def test_refuses_other_weights(world: World) -> None:
    await world.engine.load(PolicySpec("starter@1", "elsewhere"))
    with pytest.raises(DataLoss):
        await world.gateway.serving.ensure(ONE)


async def test_a_version_that_cannot_be_loaded_is_left_alone_for_a_while(world: World) -> None:
    world.engine.refuse_sources = {"starter/1": "bad weights"}
    for _ in range(5):
        with pytest.raises(InvalidArgument, match="bad weights"):
            await world.gateway.serving.ensure(ONE)
        world.clock.advance(timedelta(seconds=11))
    assert world.engine.loads["starter@1"] == 1
    world.engine.refuse_sources = {}
    world.clock.advance(timedelta(seconds=11))
    await world.gateway.serving.ensure(ONE)


async def test_unknown_versions(world: World) -> None:
    with pytest.raises(NotFound):
        await world.gateway.serving.ensure(VersionRef("starter", 9))


async def test_what_is_in_use_is_kept(world: World) -> None:
    await world.gateway.serving.ensure(ONE)
    world.clock.advance(timedelta(minutes=2))
    await world.gateway.serving.ensure(TWO)
    await world.gateway.serving.keep()
    assert world.engine.kept == [("starter@2", world.settings.replicas)]


async def test_says_so_when_there_is_no_room(world: World) -> None:
    world.engine.capacity = 1
    await world.gateway.serving.ensure(ONE)
    with pytest.raises(Unavailable, match="no room"):
        await world.gateway.serving.ensure(TWO)


async def test_unload_is_idempotent(world: World) -> None:
    await world.gateway.serving.ensure(ONE)
    await world.gateway.serving.unload(ONE)
    await world.gateway.serving.unload(ONE)
    assert world.engine.policies == {}


async def test_waits_for_what_is_unloading(world: World) -> None:
    await world.gateway.serving.ensure(ONE)
    await world.start()  # a gateway that has not seen the version ready
    going = world.engine.policies["starter@1"]
    world.engine.policies["starter@1"] = replace(going, state=PolicyState.UNLOADING)

    async def go() -> None:
        await asyncio.sleep(0.01)
        del world.engine.policies["starter@1"]

    await asyncio.gather(world.gateway.serving.ensure(ONE), go())
    assert world.engine.loads["starter@1"] == 2


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "DATA_LOSS", "UNIMPLEMENTED", "PERMISSION_DENIED"])
async def test_a_version_that_no_engine_takes_is_at_fault_and_not_its_caller(world: World, code: str) -> None:
    world.engine.refuses_with = code
    world.engine.refuse_sources = {"starter/1": "/srv/artifacts/ab12: model.safetensors is cut short"}
    for answer in (
        world.gateway.serving.generate(ONE, PROMPT, Sampling()),
        anext(world.gateway.serving.stream(ONE, PROMPT, Sampling())),
    ):
        with pytest.raises(Unservable, match=r"starter@1 cannot be served: .*model\.safetensors is cut short"):
            await answer


async def test_a_version_that_is_lost_again_at_once_is_no_fault_of_the_request(world: World) -> None:
    def lose(name: str) -> None:
        raise FailedPrecondition(f"policy {name} serves other weights")

    world.engine.before_answer = lose
    for answer in (
        world.gateway.serving.generate(ONE, PROMPT, Sampling()),
        anext(world.gateway.serving.stream(ONE, PROMPT, Sampling())),
    ):
        with pytest.raises(Unavailable, match="the engine of starter@1 is gone"):
            await answer


async def test_a_version_is_loaded_and_unloaded_by_request(world: World, http: httpx.AsyncClient) -> None:
    path = "/api/v1/models/starter/versions/2"
    world.engine.loads_at_once = False
    world.gateway.serving._options = replace(world.gateway.serving._options, start_wait=timedelta(0))
    assert (await http.post(f"{path}/load", json={})).json() == {"policy_id": ""}
    with pytest.raises(Unavailable):
        await world.gateway.serving.ensure(TWO, wait=timedelta(milliseconds=20))
    world.engine.finish_loading("starter@2")
    await world.gateway.serving.ensure(TWO)
    assert (await http.post(f"{path}/load", json={})).json() == {"policy_id": policy_id_of("starter/2")}
    assert world.engine.loads["starter@2"] == 1
    for _ in range(2):
        assert (await http.post(f"{path}/unload", json={})).status_code == 200
    assert world.engine.policies == {}


async def test_a_load_that_cannot_be_says_why(world: World, http: httpx.AsyncClient) -> None:
    world.engine.capacity = 0
    full = await http.post("/api/v1/models/starter/versions/2/load", json={})
    assert (full.status_code, full.json()["error"]["message"].split(":")[0]) == (
        503,
        "there is no room to load starter@2",
    )
    assert (await http.post("/api/v1/models/starter/versions/9/load", json={})).status_code == 404
