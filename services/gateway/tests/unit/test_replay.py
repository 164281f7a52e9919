"""Experiments offline, through the gateway's REST API: every variant answers the same stored prompts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from gateway_service.domain.experiments.replayer import LEASE, REST
from gateway_service.domain.traffic.record import ProblemRef, Unit
from ratchet_kit.errors import DeadlineExceeded, Internal, InvalidArgument, Unavailable
from ratchet_policies import FinishReason, Generation

from ..world import World
from .test_metrics import ACCEPTED, COST, PRICE, VARIANTS, faults

QUALITY = {"measure": "MEASURE_QUALITY"}
TOKENS = {"measure": "MEASURE_TOKENS"}
ERRORS = {"measure": "MEASURE_ERROR_RATE"}


def prompts(count: int, problem: str = "") -> Sequence[Mapping[str, Any]]:
    asked = [{"prompt": {"text": f"say right number {number}"}} for number in range(count)]
    ref = {"problem_set": "composed/test", "problem_id": problem}
    return [one | {"problem": ref} for one in asked] if problem else asked


async def create(http: httpx.AsyncClient, asked: Sequence[Mapping[str, Any]] = (), **spec: Any) -> httpx.Response:
    spec = {"variants": VARIANTS, "primary": TOKENS, "replay": {}} | spec
    return await http.post("/api/v1/experiments", json={"spec": spec, "prompts": asked})


async def started(http: httpx.AsyncClient, asked: Sequence[Mapping[str, Any]] = (), **spec: Any) -> str:
    made = await create(http, asked, **spec)
    assert made.status_code == 200, made.text
    id = str(made.json()["experiment"]["id"])
    begun = await http.post(f"/api/v1/experiments/{id}/start", json={})
    assert begun.status_code == 200, begun.text
    return id


async def show(http: httpx.AsyncClient, id: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (await http.get(f"/api/v1/experiments/{id}")).json()["experiment"]
    return found


def answering(world: World, change: Callable[[str, Generation], Generation]) -> Counter[str]:
    """Changes what the engine generates, by the policy's name. Counts answers: all, and being made now and at most."""
    made, seen = world.engine.generate, Counter[str]()

    async def generate(name: str, *rest: Any, **more: Any) -> Generation:
        seen["now"] += 1
        seen["most"] = max(seen["most"], seen["now"])
        seen["all"] += 1
        await asyncio.sleep(0)
        try:
            return change(name, await made(name, *rest, **more))
        finally:
            seen["now"] -= 1

    world.engine.generate = generate  # type: ignore[method-assign]
    return seen


def as_it_is(name: str, made: Generation) -> Generation:
    return made


async def test_both_arms_answer_and_it_concludes_itself_in_words(world: World, http: httpx.AsyncClient) -> None:
    world.grader.problems.add("right")

    def worse(name: str, made: Generation) -> Generation:
        wrong = tuple(replace(one, text="no") for one in made.completions)
        return replace(made, completions=wrong) if name == "starter@1" else made

    seen = answering(world, worse)
    id = await started(http, prompts(60, "right"), primary=QUALITY, guardrails=[TOKENS, COST, ERRORS], price=PRICE)
    assert (await show(http, id))["prompts"] == 60
    await world.gateway.replayer.tick()
    ended = await show(http, id)
    assert ended["state"] == "STATE_CONCLUDED"
    assert ended["events"][-1]["reason"] == "every variant has answered all prompts"
    report = ended["report"]
    assert [(one["units"], one["requests"]) for one in report["variants"]] == [("60", "60")] * 2
    assert report["comparisons"][0]["standing"] == "STANDING_BETTER"
    assert report["comparisons"][0]["difference"]["value"] == 1
    assert report["conclusion"].startswith("treatment: better in quality: +1 (")
    assert seen["most"] == world.settings.replay_concurrency
    assert seen["all"] == 120
    await world.gateway.replayer.tick()
    assert seen["all"] == 120
    assert list(await world.experiments.prompts(id, 0, 10)) == []


async def test_what_prompts_do_to_every_answer_is_taken_out(world: World, http: httpx.AsyncClient) -> None:
    """Answers of 1 to 60 words, by the prompt, and one word more by the second version."""

    def longer(name: str, made: Generation) -> Generation:
        words = seen[name] + (name == "starter@2")
        seen[name] += 1
        return replace(made, completions=tuple(replace(one, token_ids=[1] * words) for one in made.completions))

    seen = Counter({"starter@1": 1, "starter@2": 1})
    world.settings = world.settings.model_copy(update={"replay_concurrency": 1})
    answering(world, longer)
    id = await started(http, prompts(60))
    await world.gateway.replayer.tick()
    comparison = (await show(http, id))["report"]["comparisons"][0]
    assert comparison["difference"]["value"] == 1
    assert comparison["standing"] == "STANDING_WORSE"
    assert comparison["difference"]["low"] > 0.9  # as if the prompts were others: -8


async def test_how_answers_are_sampled(world: World, http: httpx.AsyncClient) -> None:
    sampling = {"temperature": 0.0, "max_tokens": 7, "n": 2}
    id = await started(http, prompts(1), replay={"sampling": sampling})
    await world.gateway.replayer.tick()
    assert [(one.temperature, one.max_tokens, one.n) for one in world.engine.samplings] == [(0, 7, 2)] * 2
    assert (await show(http, id))["report"]["variants"][0]["values"][0]["value"] == 8  # of both completions


async def test_live_traffic_knows_nothing_of_it(world: World, http: httpx.AsyncClient) -> None:
    first = await started(http, prompts(5))
    second = await started(http, prompts(5))  # several at once
    live = await http.post(
        "/api/v1/experiments", json={"spec": {"variants": VARIANTS, "primary": ERRORS, "unit": "UNIT_REQUEST"}}
    )
    live_id = live.json()["experiment"]["id"]
    assert (await http.post(f"/api/v1/experiments/{live_id}/start", json={})).status_code == 200
    await world.gateway.experiments.stop(live_id, "")
    assert (await world.ask(key="somebody")).version.number == 1
    assert [one.experiment_id for one in await world.records()] == [""]
    await world.release()
    await world.gateway.replayer.tick()
    assert [(await show(http, id))["state"] for id in (first, second)] == ["STATE_CONCLUDED"] * 2


class TestKeptTraffic:
    async def test_the_latest_prompts_of_a_model(self, world: World, http: httpx.AsyncClient) -> None:
        await world.key()
        for number in range(5):
            await world.ask(text=f"say number {number}")
        world.engine.prompts.clear()
        id = await started(http, replay={"latest": 3})
        assert (await show(http, id))["prompts"] == 3
        await world.gateway.replayer.tick()
        assert Counter(one.messages[-1].content for one in world.engine.prompts) == {  # type: ignore[union-attr]
            f"say number {number}": 2 for number in (2, 3, 4)
        }
        assert len(world.completions.exchanges) == 5  # what is replayed is not kept again

    async def test_what_was_forgotten_is_not_asked(self, world: World, http: httpx.AsyncClient) -> None:
        await world.key()
        for user in ("ann", "bob"):
            await world.ask(text=f"say {user}", key=user)
        id = await started(http, replay={"latest": 10})
        await world.gateway.exchanges.forget(Unit.USER, "ann")
        world.engine.prompts.clear()
        await world.gateway.replayer.tick()
        assert {one.messages[-1].content for one in world.engine.prompts} == {"say bob"}  # type: ignore[union-attr]
        ended = await show(http, id)
        assert (ended["prompts"], ended["report"]["variants"][0]["requests"]) == (2, "1")

    async def test_where_nothing_is_kept(self, http: httpx.AsyncClient) -> None:
        refused = await create(http, replay={"latest": 3})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "FAILED_PRECONDITION")
        assert "no traffic of model starter is kept" in refused.json()["error"]["message"]


class TestGoingOn:
    async def test_after_a_fault_of_the_platform(self, world: World, http: httpx.AsyncClient) -> None:
        """What was answered is not asked again, and what was not is no failure of the version."""
        seen = answering(world, as_it_is)
        id = await started(http, prompts(150), primary=ERRORS)

        def away(name: str) -> None:
            if seen["all"] > 130:
                raise Unavailable("no engine")

        world.engine.before_answer = away
        await world.gateway.replayer.tick()
        under_way = await show(http, id)
        answered = sum(int(one["requests"]) for one in under_way["report"]["variants"])
        assert under_way["state"] == "STATE_RUNNING"
        assert 100 < answered <= 130 + world.settings.replay_concurrency
        world.engine.before_answer = lambda name: None
        seen.clear()
        async with world.another() as other:  # the first has given it back
            await other.replayer.tick()
        ended = await show(http, id)
        assert ended["state"] == "STATE_CONCLUDED"
        assert seen["all"] == 300 - answered
        assert [one["requests"] for one in ended["report"]["variants"]] == ["150", "150"]
        assert [one["values"][0]["value"] for one in ended["report"]["variants"]] == [0, 0]

    async def test_one_prompt_that_the_platform_fails_at_holds_up_no_other(
        self, world: World, http: httpx.AsyncClient
    ) -> None:
        world.grader.problems.add("right")
        graded = world.grader.grade

        async def grade(problem: ProblemRef, texts: Sequence[str]) -> Sequence[float]:
            if texts[0].endswith(" 7"):
                raise Unavailable("the sandbox died")
            return await graded(problem, texts)

        world.grader.grade = grade  # type: ignore[method-assign]
        id = await started(http, prompts(150, "right"), primary=QUALITY)
        for _ in range(2):  # the second time it rests
            await world.gateway.replayer.tick()
            under_way = await show(http, id)
            assert under_way["state"] == "STATE_RUNNING"
            assert [one["requests"] for one in under_way["report"]["variants"]] == ["149", "149"]
        world.grader.grade = graded  # type: ignore[method-assign]
        world.clock.advance(REST)
        await world.gateway.replayer.tick()
        ended = await show(http, id)
        assert ended["state"] == "STATE_CONCLUDED"
        assert [one["requests"] for one in ended["report"]["variants"]] == ["150", "150"]

    async def test_with_one_gateway_at_a_time(self, world: World, http: httpx.AsyncClient) -> None:
        seen = answering(world, as_it_is)
        id = await started(http, prompts(3))
        experiment = await world.experiments.get(id)
        await world.experiments.save(experiment.taken("another gateway, which died", world.clock.now(), LEASE))
        await world.gateway.replayer.tick()
        assert seen["all"] == 0
        world.clock.advance(LEASE + timedelta(seconds=1))
        await world.gateway.replayer.tick()
        assert (await show(http, id))["state"] == "STATE_CONCLUDED"

    async def test_paused_and_started_again(self, world: World, http: httpx.AsyncClient) -> None:
        seen = answering(world, as_it_is)
        id = await started(http, prompts(150))
        stopped = asyncio.Event()

        async def pause() -> None:
            while seen["all"] < 20:
                await asyncio.sleep(0)
            assert (await http.post(f"/api/v1/experiments/{id}/pause", json={})).status_code == 200
            stopped.set()

        await asyncio.gather(pause(), world.gateway.replayer.tick())
        assert stopped.is_set()
        before = seen["all"]
        assert before <= 201  # no further page is begun
        await world.gateway.replayer.tick()
        assert (seen["all"], (await show(http, id))["state"]) == (before, "STATE_PAUSED")
        await http.post(f"/api/v1/experiments/{id}/start", json={})
        await world.gateway.replayer.tick()
        assert ((await show(http, id))["state"], seen["all"]) == ("STATE_CONCLUDED", 300)

    async def test_stopped_amid_its_answers(self, world: World, http: httpx.AsyncClient) -> None:
        """SIGTERM does not wait for a long answer, and the next process makes it."""
        begun, made = asyncio.Event(), world.engine.generate

        async def never(*rest: Any, **more: Any) -> Generation:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        world.engine.generate = never  # type: ignore[method-assign]
        id = await started(http, prompts(2))
        stop = asyncio.Event()
        running = asyncio.create_task(world.gateway.replayer.run(stop))
        await begun.wait()
        stop.set()
        await running
        world.engine.generate = made  # type: ignore[method-assign]
        async with world.another() as other:
            await other.replayer.tick()
        assert (await show(http, id))["state"] == "STATE_CONCLUDED"


class TestWhatDoesNotEnd:
    """The review's test_review.py: after 48 rounds RUNNING, 240 generations made in vain, error rate +0."""

    @pytest.mark.parametrize("how", ["deadline", "broken off"])
    async def test_a_version_that_does_not_come_to_an_end_fails(
        self, world: World, http: httpx.AsyncClient, how: str
    ) -> None:
        made, asked = world.engine.generate, Counter[str]()

        async def generate(name: str, policy_id: str, prompt: Any, *rest: Any, **more: Any) -> Generation:
            found = await made(name, policy_id, prompt, *rest, **more)
            if name == "starter@1" or int(prompt.text.split()[-1]) % 40:
                return found
            asked[prompt.text] += 1
            if how == "deadline":
                raise DeadlineExceeded("no answer in 5 min")
            cut = (replace(one, text="", token_ids=[], finish_reason=FinishReason.ABORTED) for one in found.completions)
            return replace(found, completions=tuple(cut))

        world.engine.generate = generate  # type: ignore[method-assign]
        id = await started(http, prompts(200), guardrails=[ERRORS])
        await world.gateway.replayer.tick()
        ended = await show(http, id)
        assert ended["state"] == "STATE_CONCLUDED"
        assert [one["requests"] for one in ended["report"]["variants"]] == ["200", "200"]
        assert [one["values"][1]["value"] for one in ended["report"]["variants"]] == [0, 5 / 200]
        assert ended["report"]["variants"][1]["values"][0]["units"] == "195"  # an answer that is none has no tokens
        assert set(asked.values()) == {2}

    async def test_once_is_not_twice(self, world: World, http: httpx.AsyncClient) -> None:
        made, failed = world.engine.generate, set[object]()

        async def generate(name: str, policy_id: str, prompt: Any, *rest: Any, **more: Any) -> Generation:
            if (name, prompt.text) not in failed:
                failed.add((name, prompt.text))
                raise DeadlineExceeded("busy")
            return await made(name, policy_id, prompt, *rest, **more)

        world.engine.generate = generate  # type: ignore[method-assign]
        id = await started(http, prompts(20), primary=ERRORS)
        await world.gateway.replayer.tick()
        assert [one["values"][0]["value"] for one in (await show(http, id))["report"]["variants"]] == [0, 0]

    async def ticked(self, world: World, http: httpx.AsyncClient, id: str) -> Mapping[str, Any]:
        for _ in range(48):
            await world.gateway.replayer.tick()
            world.clock.advance(timedelta(hours=1))
        return await show(http, id)

    async def test_what_the_platform_fails_at_for_ever_is_left_out(self, world: World, http: httpx.AsyncClient) -> None:
        made, asked = world.engine.generate, Counter[str]()

        async def generate(name: str, policy_id: str, prompt: Any, *rest: Any, **more: Any) -> Generation:
            asked[name] += 1
            if name == "starter@2" and int(prompt.text.split()[-1]) % 40 == 0:
                raise Unavailable("the node is away")
            return await made(name, policy_id, prompt, *rest, **more)

        world.engine.generate = generate  # type: ignore[method-assign]
        id = await started(http, prompts(200), guardrails=[ERRORS])
        ended = await self.ticked(world, http, id)
        assert ended["state"] == "STATE_CONCLUDED"
        reason = ended["events"][-1]["reason"]
        assert reason.startswith("answers that are left out: 5 of treatment; the platform has failed for 60 minutes")
        assert [one["values"][1]["value"] for one in ended["report"]["variants"]] == [0, 0]
        assert "Of 200 prompts are answered: 200 by control, 195 by treatment" in ended["report"]["conclusion"]

    async def test_a_platform_that_stays_away_is_not_waited_for_for_ever(
        self, world: World, http: httpx.AsyncClient
    ) -> None:
        def away(name: str) -> None:
            raise Unavailable("no engine")

        world.engine.before_answer = away
        id = await started(http, prompts(50), primary=ERRORS)
        found = await self.ticked(world, http, id)
        assert found["state"] == "STATE_PAUSED"
        assert found["events"][-1]["reason"].startswith(
            "start goes on where it was; the platform has failed for 60 min"
        )
        world.engine.before_answer = lambda name: None
        await http.post(f"/api/v1/experiments/{id}/start", json={})
        await world.gateway.replayer.tick()
        ended = await show(http, id)
        assert ended["state"] == "STATE_CONCLUDED"
        assert [one["values"][0]["value"] for one in ended["report"]["variants"]] == [0, 0]


async def test_what_a_version_fails_at_counts_against_it(world: World, http: httpx.AsyncClient) -> None:
    def fail(name: str) -> None:
        if name == "starter@2":
            raise Internal("broken")

    world.engine.before_answer = fail
    id = await started(http, prompts(60), primary=ERRORS)
    await world.gateway.replayer.tick()
    report = (await show(http, id))["report"]
    assert [one["values"][0]["value"] for one in report["variants"]] == [0, 1]
    assert report["comparisons"][0]["standing"] == "STANDING_WORSE"


async def test_a_version_that_cannot_be_loaded_pauses_it(world: World, http: httpx.AsyncClient) -> None:
    world.engine.refuse_sources = {"starter/2": "no such architecture"}
    id = await started(http, prompts(3))
    await world.gateway.replayer.tick()
    found = await show(http, id)
    assert found["state"] == "STATE_PAUSED"
    assert found["events"][-1]["reason"].startswith("starter@2 cannot be loaded: ")
    assert await world.records() == []


async def test_an_unknown_problem_is_no_score(world: World, http: httpx.AsyncClient) -> None:
    id = await started(http, prompts(2, "unknown"), primary=QUALITY)
    await world.gateway.replayer.tick()
    ended = await show(http, id)
    assert ended["report"]["variants"][0]["values"][0]["units"] == "0"
    assert "too few units have a value" in ended["report"]["conclusion"]


async def test_a_problem_that_can_judge_nothing_is_no_score(world: World, http: httpx.AsyncClient) -> None:
    world.grader.fault = InvalidArgument("its tests can judge no program")
    seen = answering(world, as_it_is)
    id = await started(http, prompts(2, "right"), primary=QUALITY)
    await world.gateway.replayer.tick()
    await world.gateway.replayer.tick()
    ended = await show(http, id)
    assert (ended["state"], seen["all"]) == ("STATE_CONCLUDED", 4)
    assert "too few units have a value" in ended["report"]["conclusion"]


async def test_a_bug_is_met_again_after_a_rest(world: World, http: httpx.AsyncClient) -> None:
    def fail(name: str) -> None:
        raise LookupError(name)

    world.engine.before_answer = fail
    seen = answering(world, as_it_is)
    await started(http, prompts(2))
    await world.gateway.replayer.tick()
    before = seen["all"]
    await world.gateway.replayer.tick()
    assert seen["all"] == before > 0
    world.clock.advance(REST)
    await world.gateway.replayer.tick()
    assert seen["all"] > before


async def test_a_request_makes_one(http: httpx.AsyncClient) -> None:
    spec = {"variants": VARIANTS, "primary": TOKENS, "replay": {}}
    body = {"request_id": "once", "spec": spec, "prompts": prompts(2)}
    first, again = [(await http.post("/api/v1/experiments", json=body)).json() for _ in range(2)]
    assert first["experiment"]["id"] == again["experiment"]["id"]
    other = await http.post("/api/v1/experiments", json=body | {"prompts": prompts(3)})
    assert other.json()["error"]["code"] == "ALREADY_EXISTS"


async def test_what_cannot_be_is_named(http: httpx.AsyncClient) -> None:
    assert faults(await create(http)) == {"prompts"}
    assert faults(await create(http, prompts(1), replay={"latest": 5})) == {"prompts"}
    assert faults(await create(http, prompts(2001))) == {"prompts"}
    assert faults(await create(http, prompts(1), replay=None)) == {"prompts"}
    assert faults(await create(http, [{"prompt": {}}])) == {"prompts[0].prompt"}
    assert faults(await create(http, prompts(5), primary=QUALITY)) == {"spec.primary.measure"}
    assert faults(await create(http, prompts(5), min_units=6)) == {"spec.min_units"}
    weights = [VARIANTS[0], VARIANTS[1] | {"weight": 2}]
    wrong = {
        "variants": weights,
        "primary": ACCEPTED,
        "guardrails": [{"measure": "MEASURE_FEEDBACK"}],
        "unit": "UNIT_USER",
        "traffic": 0.5,
        "min_duration": "3600s",
        "replay": {"latest": 2001, "sampling": {"n": 0}},
    }
    assert faults(await create(http, **wrong)) == {
        f"spec.{field}"
        for field in (
            "variants",
            "primary.measure",
            "guardrails[0].measure",
            "unit",
            "traffic",
            "min_duration",
            "replay.latest",
            "replay.sampling.n",
        )
    }
