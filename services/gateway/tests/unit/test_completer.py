from contextlib import aclosing
from datetime import timedelta

import pytest

from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.releases.release import Stage
from gateway_service.domain.serving import Unservable
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_kit.names import CHAMPION, ModelRef, VersionRef
from ratchet_policies import BrokenOff, FinishReason, PolicySpec, Sampling, TextPrompt

from ..world import World

ALL = (Stage(100, timedelta(hours=1), 0),)


async def test_the_champion_a_version_or_an_alias_answers(world: World) -> None:
    world.registry.aliases["starter", "tested"] = 3
    asked = {model: (await world.ask(model)).version.number for model in ("starter", "starter@2", "starter:tested")}
    assert asked == {"starter": 1, "starter@2": 2, "starter:tested": 3}
    assert {record.arm for record in await world.records()} == {Arm.NONE}


async def test_unknown_models_are_not_recorded(world: World) -> None:
    for model in ("nobody", "starter@9", "starter:nothing"):
        with pytest.raises(NotFound):
            await world.ask(model)
    del world.registry.aliases["starter", CHAMPION]
    await world.gateway.refresher.refresh()
    with pytest.raises(FailedPrecondition, match="no champion"):
        await world.ask("starter")
    assert await world.records() == []


async def test_the_champion_answers_while_the_registry_is_away(world: World) -> None:
    world.registry.away = Unavailable("the registry is away")
    with pytest.raises(Unavailable):
        await world.ask()
    world.registry.away = None
    await world.ask()
    world.registry.away = Unavailable("the registry is away")
    assert (await world.ask()).version == VersionRef("starter", 1)


async def test_records_what_was_asked_of_whom(world: World) -> None:
    answer = await world.ask(text="say hi to all")
    (record,) = await world.records()
    assert record.id == answer.id
    assert (str(record.version), record.policy_id) == ("starter@1", answer.generation.policy_id)
    assert (record.prompt_tokens, record.completion_tokens, record.texts) == (4, 4, ("say hi to all",))


async def test_records_errors_but_not_the_callers(world: World) -> None:
    with pytest.raises(InvalidArgument):
        await world.ask(text="")
    assert await world.records() == []

    def die(name: str) -> None:
        raise Unavailable("the engine died")

    world.engine.before_answer = die
    with pytest.raises(Unavailable):
        await world.ask()
    assert [record.error for record in await world.records()] == ["the engine died"]


async def test_a_long_answer_is_not_kept(world: World) -> None:
    await world.ask(text="x" * 70_000)
    assert (await world.records())[0].texts == ()


async def on_candidate(world: World):
    return await world.until_progressing(await world.release(ALL))


async def test_a_candidate_that_is_not_loaded_is_not_waited_for_and_has_failed_nobody(world: World) -> None:
    await on_candidate(world)
    world.engine.loads_at_once = False
    await world.gateway.serving.unload(VersionRef("starter", 2))
    world.engine.loads_at_once = False
    world.engine.policies.pop("starter@1", None)
    await world.engine.load(PolicySpec("starter@1", "starter/1"))
    world.engine.finish_loading("starter@1")
    answer = await world.ask()
    assert answer.version.number == 1
    assert [(record.arm, bool(record.error)) for record in await world.records()] == [(Arm.FALLBACK, False)]


async def test_what_both_refuse_says_nothing_about_the_candidate(world: World) -> None:
    await on_candidate(world)
    with pytest.raises(InvalidArgument):
        await world.ask(text="")
    assert await world.records() == []


async def test_what_only_the_candidate_refuses_counts_against_it(world: World) -> None:
    def too_long(name: str) -> None:
        if name == "starter@2":
            raise InvalidArgument("the prompt is longer than the model's length")

    await on_candidate(world)
    world.engine.before_answer = too_long
    assert (await world.ask()).version.number == 1
    failed = {record.arm: bool(record.error) for record in await world.records()}
    assert failed == {Arm.CANDIDATE: True, Arm.FALLBACK: False}


def request(text: str = "say hi to all", sampling: Sampling = Sampling()) -> CompletionRequest:
    return CompletionRequest(ModelRef.parse_registered("starter"), TextPrompt(text), sampling)


async def stream(world: World, sampling: Sampling = Sampling()):
    return [piece async for piece in world.gateway.completer.stream(request(sampling=sampling))]


async def test_a_stream_is_recorded_whole(world: World) -> None:
    pieces = await stream(world)
    assert "".join(piece.delta.completion.text for piece in pieces) == "say hi to all"
    (record,) = await world.records()
    assert (record.id, record.texts, record.completion_tokens) == (pieces[0].id, ("say hi to all",), 4)


async def test_a_stream_falls_back_before_its_first_piece(world: World) -> None:
    def die(name: str) -> None:
        if name == "starter@2":
            raise Unavailable("the engine died")

    await on_candidate(world)
    world.engine.before_answer = die
    assert {str(piece.version) for piece in await stream(world)} == {"starter@1"}


async def test_a_stream_that_is_left_stops_the_engine(world: World) -> None:
    pieces = world.gateway.completer.stream(request())
    await anext(pieces)
    assert world.engine.streams_closed == 0
    await pieces.aclose()
    assert world.engine.streams_closed == 1


@pytest.mark.parametrize("choices", [1, 2])
async def test_a_stream_that_is_closed_at_its_end_is_delivered(world: World, choices: int) -> None:
    """Clients close at the last `finish_reason`: they have the whole answer then."""
    await world.key()
    ended = 0
    async with aclosing(world.gateway.completer.stream(request(sampling=Sampling(n=choices)))) as pieces:
        async for piece in pieces:
            ended += piece.delta.completion.finish_reason is not FinishReason.UNFINISHED
            if ended == choices:
                break
    (record,) = await world.records()
    assert (record.left, record.error, record.completion_tokens) == (False, "", 4 * choices)
    assert world.completions.exchanges[record.id].material.answers[-1].content == "say hi to all"


async def test_a_stream_is_left_while_a_choice_is_unfinished(world: World) -> None:
    async with aclosing(world.gateway.completer.stream(request(sampling=Sampling(n=2)))) as pieces:
        async for piece in pieces:
            if piece.delta.completion.finish_reason is not FinishReason.UNFINISHED:
                break
    (record,) = await world.records()
    assert (record.left, record.texts) == (True, ())


@pytest.mark.parametrize(("choices", "pieces"), [(1, 2), (2, 5)])
async def test_what_the_engine_broke_off_is_an_error(world: World, choices: int, pieces: int) -> None:
    """Of several choices, one suffices."""
    await world.key()
    sampling = Sampling(n=choices, temperature=0.0)
    world.engine.breaks_off_after = {"starter@1": 2}
    with pytest.raises(BrokenOff):
        await world.gateway.completer.complete(request(sampling=sampling))
    seen = 0
    with pytest.raises(BrokenOff):
        async for _ in world.gateway.completer.stream(request(sampling=sampling)):
            seen += 1
    assert seen == pieces
    assert [(record.error, record.texts) for record in await world.records()] == [
        ("the engine broke the answer off", ())
    ] * 2
    assert not world.completions.exchanges


async def test_a_stream_that_ends_before_its_answer_is_broken_off(world: World) -> None:
    made = world.engine.stream

    async def stream_cut(*request):
        async with aclosing(made(*request)) as pieces:
            async for piece in pieces:
                if piece.completion.finish_reason is not FinishReason.UNFINISHED:
                    return
                yield piece

    world.engine.stream = stream_cut
    with pytest.raises(BrokenOff):
        await stream(world)


async def test_the_baseline_answers_for_what_the_candidates_engine_breaks_off(world: World) -> None:
    await on_candidate(world)
    world.engine.breaks_off_after = {"starter@2": 0}
    assert (await world.ask()).version.number == 1
    assert {piece.version.number for piece in await stream(world)} == {1}
    failed = [(record.arm, bool(record.error)) for record in await world.records()]
    assert failed == [(Arm.CANDIDATE, True), (Arm.FALLBACK, False)] * 2


async def test_a_stream_that_breaks_off_late_has_no_fallback(world: World) -> None:
    await on_candidate(world)
    world.engine.breaks_off_after = {"starter@2": 1}
    with pytest.raises(BrokenOff):
        await stream(world)
    assert [(record.arm, bool(record.error)) for record in await world.records()] == [(Arm.CANDIDATE, True)]


async def test_a_champion_without_weights_is_recorded_as_its_failure(world: World) -> None:
    world.engine.refuse_sources = {"starter/1": "model.safetensors is gone"}
    with pytest.raises(Unservable):
        await world.ask()
    with pytest.raises(Unservable):
        await stream(world)
    errors = [(str(record.version), record.error) for record in await world.records()]
    assert [version for version, _ in errors] == ["starter@1"] * 2
    assert all("model.safetensors is gone" in error for _, error in errors)


async def test_the_baseline_answers_for_a_candidate_whose_weights_are_gone(world: World) -> None:
    await on_candidate(world)
    world.engine.policies.pop("starter@2")
    world.engine.refuse_sources = {"starter/2": "model.safetensors is gone"}
    assert (await world.ask()).version.number == 1
