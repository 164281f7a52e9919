"""What is kept of production: by consent, redacted, added to by who sent it, forgotten."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from gateway_service.domain.completions.completion import CompletionRequest
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.traffic import exchanges as exchanges_module
from gateway_service.domain.traffic.exchange import MAX_CHOICES, Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from gateway_service.domain.traffic.material import MAX_MATERIAL
from gateway_service.domain.traffic.record import Arm, ProblemRef, Unit, unit_id
from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RatchetError,
    Unavailable,
)
from ratchet_kit.names import ModelRef
from ratchet_policies import ChatPrompt, Prompt, Sampling, TextPrompt, TokenPrompt, Tool, Tools
from ratchet_problems import Message, ToolCall

from ..world import World

EVERYTHING = Selection()


async def kept(world: World, selection: Selection = EVERYTHING) -> list[Exchange]:
    await world.gateway.recorder.flush()
    return list((await world.gateway.exchanges.page(selection, 0, "")).items)


def request(prompt: Prompt, n: int = 1) -> CompletionRequest:
    return CompletionRequest(ModelRef.parse_registered("starter"), prompt, Sampling(n=n))


async def ask(world: World, prompt: Prompt, n: int = 1) -> str:
    return (await world.gateway.completer.complete(request(prompt, n))).id


class TestConsent:
    async def test_nothing_is_kept_without_it(self, world: World) -> None:
        await world.key(keep_traffic=False)
        answer = await world.ask(text="say hi", key="ann")
        assert await kept(world) == []
        assert (await world.completions.get(answer.id)).texts == ("say hi",)  # for its tests
        with pytest.raises(FailedPrecondition, match="are not kept"):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Accepted("hello")))

    async def test_with_it_prompt_answers_and_arm_are_kept(self, world: World) -> None:
        key = await world.key()
        answer = await world.ask(text="say hi", key="ann", session="s1")
        (one,) = await kept(world)
        assert (one.id, one.key_id, str(one.version), one.arm) == (answer.id, key.id, "starter@1", Arm.NONE)
        assert one.material.prompt == ChatPrompt((Message("user", "say hi"),))
        assert one.material.answers == (Message("assistant", "say hi"),)
        assert (one.user, one.session) == (unit_id(Unit.USER, "ann"), unit_id(Unit.SESSION, "s1"))
        assert (await world.completions.get(answer.id)).texts == ()

    async def test_it_is_given_and_withdrawn(self, world: World) -> None:
        keys, key = world.gateway.keys, await world.key(keep_traffic=False)
        set_caller(await keys.set_traffic(key.id, True))
        before = await world.ask()
        withdrawn = await keys.set_traffic(key.id, False)
        set_caller(withdrawn)
        await world.ask()
        assert [one.id for one in await kept(world)] == [before.id]
        with pytest.raises(FailedPrecondition, match="keeps no traffic any more"):
            await world.gateway.feedback.give(FeedbackRequest(before.id, Accepted("hello")))

    async def test_a_revoked_key_has_none_to_give(self, world: World) -> None:
        keys, key = world.gateway.keys, await world.key()
        answer = await world.ask()
        await keys.revoke(key.id)
        with pytest.raises(FailedPrecondition, match="was revoked"):
            await keys.set_traffic(key.id, True)
        with pytest.raises(FailedPrecondition, match="keeps no traffic any more"):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Accepted("hello")))
        with pytest.raises(NotFound):
            await keys.set_traffic("key_none", True)

    async def test_another_gateway_sees_it_within_a_refresh(self, world: World) -> None:
        made = await world.gateway.keys.create("", "app", [Scope.INFERENCE])
        async with world.another() as other:
            assert not (await other.keys.authenticate(made.secret)).keep_traffic
            await world.gateway.keys.set_traffic(made.key.id, True)
            await other.refresher.refresh()
            assert (await other.keys.authenticate(made.secret)).keep_traffic

    async def test_the_same_request_with_another_consent_is_another(self, world: World) -> None:
        keys = world.gateway.keys
        await keys.create("req_1", "app", [Scope.INFERENCE])
        with pytest.raises(AlreadyExists):
            await keys.create("req_1", "app", [Scope.INFERENCE], keep_traffic=True)


class TestWhatIsKept:
    async def test_it_is_redacted(self, world: World) -> None:
        await world.key()
        await world.ask(text="mail ann@example.com with AKIAIOSFODNN7EXAMPLE")
        (one,) = await kept(world)
        assert one.material.prompt == ChatPrompt((Message("user", "mail <email> with <secret>"),))
        assert one.material.answers[0].content == "mail <email> with <secret>"

    async def test_a_stream_and_its_calls_are_kept_whole(self, world: World) -> None:
        await world.key()
        tools = Tools((Tool("find", "of bob@example.com"),))
        prompt = ChatPrompt((Message("user", "find it for bob@example.com"),), tools)
        async for _ in world.gateway.completer.stream(request(prompt)):
            pass
        (one,) = await kept(world)
        (answer,) = one.material.answers
        assert answer.tool_calls == (ToolCall("find", '{"said": "find it for <email>"}', "call_0"),)
        assert one.material.prompt == ChatPrompt(
            (Message("user", "find it for <email>"),), Tools((Tool("find", "of <email>"),))
        )

    async def test_hostile_texts_come_back_as_they_were(self, world: World) -> None:
        await world.key()
        text = "a\0b \u2028 \x1b[31m \r\n ä 😀 </script> '\"; DROP TABLE gateway_exchanges"
        await ask(world, ChatPrompt((Message("user", text), Message("user", "say hi"))))
        (one,) = await kept(world)
        assert isinstance(one.material.prompt, ChatPrompt)
        assert one.material.prompt.messages[0].content == text

    async def test_what_is_too_long_or_hidden_is_left_out(self, world: World) -> None:
        await world.key()
        await world.ask(text="x" * MAX_MATERIAL)
        await ask(world, TokenPrompt((1, 2, 3)))
        assert await kept(world) == []
        assert len(await world.records()) == 2

    async def test_failures_and_who_left_are_not_kept(self, world: World) -> None:
        await world.key()
        pieces = world.gateway.completer.stream(request(TextPrompt("say hi to all")))
        await anext(pieces)
        await pieces.aclose()

        def die(name: str) -> None:
            raise Unavailable("the engine died")

        world.engine.before_answer = die
        with pytest.raises(Unavailable):
            await world.ask()
        assert await kept(world) == []

    async def test_a_score_stands_beside_it_and_tests_read_it(self, world: World) -> None:
        world.grader.problems.add("hi")
        await world.key()
        answer = await world.ask()
        await world.gateway.feedback.give(FeedbackRequest(answer.id, Score(0.25)))
        (one,) = await kept(world)
        assert (one.score, one.problem) == (0.25, None)
        await world.gateway.feedback.give(FeedbackRequest(answer.id, ProblemRef("composed/test", "hi")))
        (one,) = await kept(world)
        assert (one.score, one.problem) == (1.0, ProblemRef("composed/test", "hi"))

    async def test_it_goes_after_its_time(self, world: World) -> None:
        await world.key()
        await world.ask()
        await kept(world)
        world.clock.advance(world.settings.keep_traffic + timedelta(seconds=1))
        stop = asyncio.Event()
        tidying = asyncio.create_task(world.gateway.tidy(stop))
        await asyncio.sleep(0.01)
        stop.set()
        await tidying
        assert await kept(world) == []


class TestFeedback:
    async def test_what_another_gateway_has_not_stored_yet_is_waited_for(self, world: World) -> None:
        await world.key()
        answer = await ask(world, TextPrompt("say hi"))
        async with world.another() as other:
            accepting = asyncio.create_task(other.feedback.give(FeedbackRequest(answer, Accepted("hello"))))
            await asyncio.sleep(0.15)
            await world.gateway.recorder.flush()
            await accepting
            (one,) = (await other.exchanges.page(EVERYTHING, 0, "")).items
        assert one.accepted == Accepted("hello")

    async def test_the_last_accepted_text_stands_redacted(self, world: World) -> None:
        await world.key()
        answer = await world.ask()
        give = world.gateway.feedback.give
        await give(FeedbackRequest(answer.id, Accepted("hello ann@example.com"), request_id="req_1"))
        await give(FeedbackRequest(answer.id, Accepted("hello bob@example.com"), request_id="req_2"))
        await give(FeedbackRequest(answer.id, Accepted("hello ann@example.com"), request_id="req_1"))  # again: nothing
        (one,) = await kept(world)
        assert one.accepted == Accepted("hello <email>")
        with pytest.raises(AlreadyExists):
            await give(FeedbackRequest(answer.id, Accepted("another"), request_id="req_1"))
        with pytest.raises(AlreadyExists):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Score(0.5), request_id="req_1"))

    @pytest.mark.parametrize(
        "accepted", [Accepted(""), Accepted(" \n"), Accepted("x" * 70_000), Accepted("hi", 1), Accepted("hi", -1)]
    )
    async def test_what_cannot_be_accepted(self, world: World, accepted: Accepted) -> None:
        await world.key()
        answer = await world.ask()
        with pytest.raises(InvalidArgument):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, accepted))

    async def test_only_the_key_that_asked_and_the_administrator_add_to_it(self, world: World) -> None:
        admin = ApiKey("key_a", "admin", "", "", frozenset({Scope.ADMIN}), world.clock.now())
        await world.key()
        answer = await world.ask()
        await world.key("another app")
        with pytest.raises(PermissionDenied):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Accepted("poison")))
        with pytest.raises(PermissionDenied):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Choice(0, answer.id, 0)))
        set_caller(admin)
        assert await world.gateway.feedback.give(FeedbackRequest(answer.id, Accepted("hello"))) == 0

    async def test_of_another_keys_answer_nobody_learns_whether_it_is_kept(self, world: World) -> None:
        await world.key(keep_traffic=False)
        answer = await world.ask()
        await world.key("another app")
        with pytest.raises(PermissionDenied):
            await world.gateway.feedback.give(FeedbackRequest(answer.id, Accepted("poison")))

    async def test_choices_between_answers_to_one_prompt(self, world: World) -> None:
        await world.key()
        prompt = TextPrompt("say hi")
        first, second = await ask(world, prompt, 2), await ask(world, prompt)
        for choice in (Choice(1, first, 0), Choice(0, second, 0), Choice(0, second, 0)):
            await world.gateway.feedback.give(FeedbackRequest(first, choice))
        one = (await kept(world))[-1]
        assert one.choices == (Choice(1, first, 0), Choice(0, second, 0))

    async def test_choices_that_say_nothing(self, world: World) -> None:
        await world.key()
        first, other = await ask(world, TextPrompt("say hi"), 2), await ask(world, TextPrompt("say no"))
        faults: list[tuple[Choice, type[RatchetError]]] = [
            (Choice(0, first, 0), InvalidArgument),
            (Choice(0, first, 2), InvalidArgument),
            (Choice(-1, first, 1), InvalidArgument),
            (Choice(0, other, 0), InvalidArgument),
            (Choice(0, "cmpl_none", 0), NotFound),
        ]
        for choice, fault in faults:
            with pytest.raises(fault):
                await world.gateway.feedback.give(FeedbackRequest(first, choice))

    async def test_one_completion_takes_so_many_choices(self, world: World) -> None:
        await world.key()
        first = await ask(world, TextPrompt("say hi"), MAX_CHOICES + 2)
        for index in range(1, MAX_CHOICES + 1):
            await world.gateway.feedback.give(FeedbackRequest(first, Choice(0, first, index)))
        with pytest.raises(FailedPrecondition, match="the maximum"):
            await world.gateway.feedback.give(FeedbackRequest(first, Choice(0, first, MAX_CHOICES + 1)))


class TestLists:
    async def test_pages_newest_first_of_what_is_selected(self, world: World) -> None:
        key = await world.key()
        start = world.clock.now()
        ids = [(await world.ask()).id for _ in range(3)]
        world.clock.advance(timedelta(hours=1))
        ids.append((await world.ask()).id)
        await world.gateway.recorder.flush()
        page = world.gateway.exchanges.page
        first = await page(EVERYTHING, 3, "")
        rest = await page(EVERYTHING, 3, first.next_page_token)
        assert [one.id for one in (*first.items, *rest.items)] == ids[::-1]
        later = start + timedelta(minutes=1)
        assert [one.id for one in await kept(world, Selection(start_time=later))] == ids[3:]
        assert len(await kept(world, Selection(end_time=later))) == 3
        assert await kept(world, Selection(model="other")) == []
        assert await kept(world, Selection(key_id="key_other")) == []
        assert len(await kept(world, Selection(model="starter", key_id=key.id))) == 4
        with pytest.raises(InvalidArgument):
            await page(Selection(start_time=later, end_time=start), 0, "")
        with pytest.raises(InvalidArgument):
            await page(EVERYTHING, 0, "no token")

    async def test_a_page_ends_before_it_is_too_long(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchanges_module, "MAX_PAGE_CHARACTERS", 100)
        await world.key()
        ids = [(await world.ask(text="word " * 10)).id for _ in range(3)]
        await world.gateway.recorder.flush()
        found, token = list[str](), ""
        for _ in ids:
            page = await world.gateway.exchanges.page(EVERYTHING, 0, token)
            assert len(page.items) == 1
            found, token = [*found, page.items[0].id], page.next_page_token
        assert (found, token) == (ids[::-1], "")

    async def test_pairs_and_problems_of_what_people_said(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        await world.key()
        ids = [(await world.ask(text=f"say {n}")).id for n in range(3)]
        exchanges = world.gateway.exchanges
        for id in ids:
            await world.gateway.feedback.give(FeedbackRequest(id, Accepted(f"better than {id}")))
        monkeypatch.setattr(exchanges_module, "MAX_PAGE_CHARACTERS", 70)
        found, token = [], ""
        for _ in ids:
            page = await exchanges.pairs(EVERYTHING, 0, token)
            found, token = [*found, *page.items], page.next_page_token
        assert [pair.rejected for pair in found] == ["say 2", "say 1", "say 0"]
        monkeypatch.undo()
        problems = await exchanges.problems(EVERYTHING, 2, "")
        assert [one.reference for one in problems.items] == [f"better than {id}" for id in ids[:0:-1]]


class TestForgetting:
    async def test_a_user_a_session_or_a_key_is_forgotten(self, world: World) -> None:
        key = await world.key()
        for user, session in (("ann", "s1"), ("ann", "s2"), ("bob", "s1"), ("bob", "s3")):
            await world.ask(key=user, session=session)
        forget = world.gateway.exchanges.forget
        assert await forget(Unit.USER, "ann") == 2
        assert await forget(Unit.USER, "ann") == 0
        assert await forget(Unit.SESSION, "s1") == 1
        assert len(await kept(world)) == 1
        assert await forget(Unit.KEY, key.id) == 1
        assert await kept(world) == []
        with pytest.raises(InvalidArgument):
            await forget(Unit.USER, "")

    async def test_data_sets_are_told_even_if_they_are_away(self, world: World) -> None:
        await world.key()
        await world.ask(key="ann")
        await world.gateway.exchanges.forget(Unit.USER, "ann")
        world.sets.is_away = True
        with pytest.raises(Unavailable):
            await world.gateway.forgetting.tell()
        world.sets.is_away = False
        async with world.another() as other:  # the one that was asked may have gone
            await other.forgetting.tell()
        await world.gateway.forgetting.tell()
        assert world.sets.forgotten == [{unit_id(Unit.USER, "ann"): world.clock.now()}]

    async def test_answers_that_wait_for_their_tests_are_forgotten_too(self, world: World) -> None:
        await world.key(keep_traffic=False)
        answer = await world.ask(key="ann")
        assert await world.gateway.exchanges.forget(Unit.USER, "ann") == 1
        assert (await world.completions.get(answer.id)).texts == ()

    async def test_also_what_another_gateway_still_has_to_write(self, world: World) -> None:
        await world.key()
        async with world.another() as other:
            prompt = ChatPrompt((Message("user", "say hi"),))
            target = ModelRef.parse_registered("starter")
            await other.completer.complete(CompletionRequest(target, prompt, routing_key="ann"))
            await world.gateway.exchanges.forget(Unit.USER, "ann")
            await other.recorder.flush()
            assert await kept(world) == []
            world.clock.advance(timedelta(seconds=1))
            await other.completer.complete(CompletionRequest(target, prompt, routing_key="ann"))
            await other.recorder.flush()
            assert len(await kept(world)) == 1

    async def test_a_pair_goes_with_either_of_its_answers(self, world: World) -> None:
        await world.key()
        world.clock.advance(timedelta(seconds=1))
        prompt = TextPrompt("say hi")
        first = await ask(world, prompt)
        of_ann = replace(request(prompt), routing_key="ann")
        second = (await world.gateway.completer.complete(of_ann)).id
        await world.gateway.feedback.give(FeedbackRequest(first, Choice(0, second, 0)))
        await world.gateway.exchanges.forget(Unit.USER, "ann")
        assert (await world.gateway.exchanges.pairs(EVERYTHING, 0, "")).items == []
