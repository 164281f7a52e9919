"""A champion that fails or starts cold is answered for by the one before it, and says so."""

import random
from contextlib import suppress
from datetime import timedelta

import httpx
import pytest

from gateway_service.domain.champions import LATELY, champion_before
from gateway_service.domain.completions.router import choose_arm
from gateway_service.domain.releases.release import Stage
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.errors import InvalidArgument, RatchetError, ResourceExhausted, Unavailable
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World

ONE, TWO = VersionRef("starter", 1), VersionRef("starter", 2)
CHAT = {"model": "starter", "messages": [{"role": "user", "content": "say hi"}]}


@pytest.mark.parametrize(
    ("numbers", "before"),
    [
        ([], None),
        ([1], None),
        ([1, 2, 5], 2),
        ([1, 2, 1], None),  # 2 was taken back
        ([1, 2, 1, 3], 1),
        ([1, 2, 3, 2], 1),
    ],
)
def test_the_one_before_was_never_undone(numbers: list[int], before: int | None) -> None:
    assert champion_before(numbers) == before


@pytest.fixture
async def second(world: World) -> World:
    """Version 2 is the champion after 1, and both are loaded."""
    for model in ("starter@1", "starter@2"):
        await world.ask(model)
    await world.gateway.recorder.flush()
    world.completions.records.clear()
    world.registry.aliases["starter", CHAMPION], world.registry.before["starter"] = 2, 1
    await world.gateway.refresher.refresh()
    return world


def fail(world: World, error: RatchetError, name: str = "starter@2") -> None:
    def before_answer(asked: str) -> None:
        if asked == name:
            raise error

    world.engine.before_answer = before_answer


async def records(world: World) -> list[tuple[int, Arm, bool]]:
    return [(one.version.number, one.arm, bool(one.error)) for one in await world.records()]


async def test_an_open_breaker_asks_the_one_before_at_once_and_says_so(second: World, http: httpx.AsyncClient) -> None:
    second.engine.failing.add("starter@2")
    answer = await http.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["model"], answer.headers["x-ratchet-arm"]) == (
        200,
        "starter@1",
        "fallback",
    )
    streamed = await http.post("/v1/chat/completions", json=CHAT | {"stream": True})
    assert (streamed.headers["x-ratchet-version"], streamed.headers["x-ratchet-arm"]) == ("starter@1", "fallback")
    assert await records(second) == [(1, Arm.FALLBACK, False)] * 2, "nobody waited for the champion"
    second.engine.failing.clear()
    await second.gateway.serving.ensure(TWO)
    assert (await second.ask()).version == TWO


async def test_a_champion_that_is_gone_is_loaded_again_meanwhile(second: World) -> None:
    del second.engine.policies["starter@2"]
    assert (await second.ask()).version == ONE
    await second.gateway.serving.ensure(TWO)
    assert (await second.ask()).version == TWO


async def test_a_cold_champion_is_not_waited_for(second: World) -> None:
    await second.gateway.serving.unload(TWO)
    second.engine.loads_at_once = False
    assert [(await second.ask()).version for _ in range(3)] == [ONE] * 3
    with pytest.raises(Unavailable, match="is being loaded"):
        await second.gateway.serving.ensure(TWO, wait=timedelta(milliseconds=50))
    assert second.engine.loads["starter@2"] == 2
    second.engine.finish_loading("starter@2")
    await second.gateway.serving.ensure(TWO)
    assert (await second.ask()).version == TWO


async def test_what_it_fails_at_is_on_record_as_its_own(second: World) -> None:
    fail(second, Unavailable("the engine died"))
    answer = await second.ask()
    assert (answer.version, answer.arm) == (ONE, "fallback")
    assert await records(second) == [(2, Arm.NONE, True), (1, Arm.FALLBACK, False)]


@pytest.mark.parametrize("refusal", [InvalidArgument("too long"), ResourceExhausted("the queue is full")])
async def test_what_it_refuses_nobody_else_is_asked(second: World, refusal: RatchetError) -> None:
    fail(second, refusal)
    with pytest.raises(type(refusal)):
        await second.ask()
    assert Arm.FALLBACK not in {arm for _, arm, _ in await records(second)}


async def test_a_pinned_version_has_no_other(second: World) -> None:
    second.engine.failing.add("starter@2")
    for model in ("starter@2", "starter:champion"):
        with pytest.raises(Unavailable):
            await second.ask(model)


async def test_a_release_judges_its_baseline_by_what_it_was_asked(second: World) -> None:
    """The answer is another's; that the baseline failed is on record, as it is of the candidate."""
    second.registry.gates["gate_3"] = second.registry.gates["gate_2"].__class__(
        "gate_3", VersionRef("starter", 3), TWO, True, "better"
    )
    stages = (Stage(1, timedelta(hours=1), 0), Stage(100, timedelta(0), 0))
    release = await second.until_progressing(await second.release(stages, candidate=3))
    keys = (f"user-{number}" for number in range(1_000))
    key = next(key for key in keys if choose_arm(release, key, random.Random(0)) is Arm.BASELINE)
    await second.gateway.models.find("starter")  # as requests before the release did
    second.engine.failing.add("starter@2")
    assert (await second.ask(key=key)).version == ONE
    assert await records(second) == [(2, Arm.BASELINE, True), (1, Arm.FALLBACK, False)]


async def test_the_cache_gives_no_fallback_to_who_asks_for_the_champion(world: World) -> None:
    world.settings = world.settings.model_copy(update={"cache_answers": 10})
    await world.start()
    for model in ("starter@1", "starter@2"):
        await world.ask(model)
    world.registry.aliases["starter", CHAMPION], world.registry.before["starter"] = 2, 1
    await world.gateway.refresher.refresh()
    repeatable = CHAT | {"temperature": 0}
    async with world.http() as http:
        fail(world, Unavailable("the engine died"))
        assert (await http.post("/v1/chat/completions", json=repeatable)).headers["x-ratchet-arm"] == "fallback"
        pinned = await http.post("/v1/chat/completions", json=repeatable | {"model": "starter@1"})
        assert not {"x-ratchet-arm", "x-ratchet-cache"} & pinned.headers.keys()


async def test_champions_that_were_asked_lately_are_loaded_at_the_start(world: World) -> None:
    world.registry.versions["idle"] = world.registry.aliases["idle", CHAMPION] = 1
    await world.ask()
    await world.gateway.recorder.flush()
    world.engine.policies.clear()
    await world.start()
    world.registry.away = Unavailable("it starts, too")
    await world.gateway.start_loads.load()
    world.registry.away = None
    for _ in range(2):
        await world.gateway.start_loads.load()
        with suppress(RatchetError):
            await world.gateway.serving.ensure(ONE)
    assert list(world.engine.policies) == ["starter@1"]
    await world.gateway.start_loads.load()
    world.engine.policies.clear()
    await world.gateway.start_loads.load()
    assert world.engine.policies == {}, "once: later a request or `keep` loads it"


async def test_who_was_asked_long_ago_is_not_loaded(world: World) -> None:
    await world.ask()
    world.clock.advance(LATELY + timedelta(seconds=1))
    await world.gateway.recorder.flush()
    world.engine.policies.clear()
    await world.start()
    await world.gateway.start_loads.load()
    assert await world.completions.busy_models(world.clock.now() - LATELY) == []
    assert world.engine.policies == {}
