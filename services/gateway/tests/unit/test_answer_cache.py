"""Answers that are given again."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.releases.release import Stage
from ratchet_kit.names import ModelRef
from ratchet_policies import BrokenOff, ChatPrompt, Sampling
from ratchet_problems import Message

from ..world import SETTINGS, World

GREEDY = Sampling(temperature=0.0)
Ask = Callable[..., object]


@pytest.fixture
async def ask(world: World) -> Ask:
    """Of a gateway that keeps two answers."""
    world.settings = SETTINGS.model_copy(update={"cache_answers": 2})
    await world.start()

    async def ask(text: str = "say hi", sampling: Sampling = GREEDY, model: str = "starter"):
        request = CompletionRequest(ModelRef.parse_registered(model), ChatPrompt((Message("user", text),)), sampling)
        return await world.gateway.completer.complete(request)

    return ask


async def test_what_the_engine_broke_off_is_not_kept(world: World, ask: Ask) -> None:
    world.engine.breaks_off_after = {"starter@1": 1}
    with pytest.raises(BrokenOff):
        await ask()
    world.engine.breaks_off_after.clear()
    assert not (await ask()).is_cached


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(seed=0), Sampling(seed=7, n=2, logit_bias={3: 1.0})])
async def test_the_same_request_has_the_same_answer(world: World, ask: Ask, sampling: Sampling) -> None:
    first, again = await ask(sampling=sampling), await ask(sampling=sampling)
    assert (first.is_cached, again.is_cached) == (False, True)
    assert (again.id, again.generation) == (first.id, first.generation)
    assert len(world.engine.samplings) == len(await world.records()) == 1


async def test_any_other_request_has_its_own(world: World, ask: Ask) -> None:
    await ask()
    for other in ({"text": "say ho"}, {"sampling": Sampling(temperature=0.0, max_tokens=9)}, {"model": "starter@2"}):
        assert not (await ask(**other)).is_cached


async def test_what_may_differ_is_made_anew(world: World, ask: Ask) -> None:
    for _ in range(2):
        assert not (await ask(sampling=Sampling())).is_cached


async def test_what_a_release_judges_is_made_anew(world: World, ask: Ask) -> None:
    await ask()
    await world.until_progressing(await world.release((Stage(100, timedelta(hours=1), 0),)))
    for _ in range(2):
        assert not (await ask()).is_cached


async def test_the_answer_that_was_unused_for_longest_leaves(world: World, ask: Ask) -> None:
    for text in ("a", "b", "a", "c"):
        await ask(text)
    assert [(await ask(text)).is_cached for text in ("a", "c", "b")] == [True, True, False]


async def test_each_key_has_its_own(world: World, ask: Ask) -> None:
    body = {"model": "starter", "messages": [{"role": "user", "content": "say hi"}], "temperature": 0}
    app = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
    other = {"Authorization": f"Bearer {app.secret}"}
    async with world.http() as http:
        for headers, expected in (({}, None), ({}, "hit"), (other, None), (other, "hit")):
            reply = await http.post("/v1/chat/completions", json=body, headers=headers)
            assert reply.headers.get("x-ratchet-cache") == expected


async def test_without_the_setting_none_is_kept(world: World) -> None:
    for _ in range(2):
        request = CompletionRequest(ModelRef.parse_registered("starter"), ChatPrompt((Message("user", "a"),)), GREEDY)
        assert not (await world.gateway.completer.complete(request)).is_cached
