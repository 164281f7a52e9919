"""What applications measure, and cost, as metrics of experiments: through the gateway's REST API."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gateway_service.domain.keys.caller import ANYBODY, set_caller
from gateway_service.domain.traffic.exchange import Accepted, Choice
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied

from ..world import World

ACCEPTED = {"measure": "MEASURE_NAMED", "name": "accepted_chars", "direction": "DIRECTION_MORE_IS_BETTER"}
EDITING = {"measure": "MEASURE_NAMED", "name": "edit_seconds", "direction": "DIRECTION_LESS_IS_BETTER"}
COST = {"measure": "MEASURE_COST"}
PRICE = {"prompt_per_million": 1.0, "completion_per_million": 4.0}
VARIANTS = [
    {"name": name, "version": {"model": "starter", "number": number}}
    for name, number in (("control", 1), ("treatment", 2))
]


async def create(http: httpx.AsyncClient, **spec: Any) -> httpx.Response:
    return await http.post("/api/v1/experiments", json={"spec": {"variants": VARIANTS} | spec})


async def started(http: httpx.AsyncClient, **spec: Any) -> str:
    made = await create(http, **spec)
    assert made.status_code == 200, made.text
    id = made.json()["experiment"]["id"]
    assert (await http.post(f"/api/v1/experiments/{id}/start", json={})).status_code == 200
    return str(id)


async def report(world: World, http: httpx.AsyncClient, id: str) -> Mapping[str, Any]:
    await world.gateway.recorder.flush()
    found: Mapping[str, Any] = (await http.get(f"/api/v1/experiments/{id}")).json()["experiment"]["report"]
    return found


async def ask(http: httpx.AsyncClient, user: str, text: str = "say hi") -> Mapping[str, Any]:
    body = {"model": "starter", "user": user, "messages": [{"role": "user", "content": text}]}
    answer: Mapping[str, Any] = (await http.post("/v1/chat/completions", json=body)).json()
    return answer


async def give(http: httpx.AsyncClient, completion_id: str, **said: Any) -> httpx.Response:
    return await http.post("/api/v1/feedback", json={"completion_id": completion_id} | said)


def faults(refused: httpx.Response) -> set[str]:
    assert refused.status_code == 400, refused.text
    return {violation["field"] for violation in refused.json()["error"]["violations"]}


class TestInAnExperiment:
    async def test_named_metrics_are_compared_by_their_directions(self, world: World, http: httpx.AsyncClient) -> None:
        id = await started(
            http, primary=ACCEPTED | {"margin": 5}, guardrails=[EDITING, {"measure": "MEASURE_ERROR_RATE"}]
        )
        for user in range(120):
            answer = await ask(http, f"user {user}")
            more = 100 * (answer["model"] == "starter@2") + user % 7
            metrics = {"accepted_chars": 50 + more, "edit_seconds": 3 + more, "unused": -1.5}
            given = await give(http, answer["id"], metrics=metrics)
            assert (given.status_code, given.json()) == (200, {"score": 0.0})
        shown = await report(world, http, id)
        first, second, third, _ = shown["comparisons"]
        assert (first["measure"], first["name"], first["standing"]) == (
            "MEASURE_NAMED",
            "accepted_chars",
            "STANDING_BETTER",
        )
        assert first["difference"]["value"] == pytest.approx(100, abs=3)
        assert first["difference"]["low"] < 100 < first["difference"]["high"]
        assert (second["name"], second["standing"]) == ("edit_seconds", "STANDING_WORSE")
        assert (third["name"], third["standing"]) == ("", "STANDING_UNDECIDED")
        assert shown["conclusion"].startswith("treatment: better in accepted_chars: +")
        assert "treatment is worse in edit_seconds" in shown["conclusion"]
        values = shown["variants"][0]["values"]
        assert [one["name"] for one in values] == ["accepted_chars", "edit_seconds", "", ""]
        assert values[0]["value"] == pytest.approx(53, abs=1)

    async def test_by_unit_and_only_of_answers_that_have_one(self, world: World, http: httpx.AsyncClient) -> None:
        """One user with many requests is one unit, and an answer without a value is none."""
        id = await started(http, primary=ACCEPTED)
        for user in range(100):
            for number in range(3 if user else 200):
                answer = await ask(http, f"user {user}")
                if number < 2 or not user:
                    await give(http, answer["id"], metrics={"accepted_chars": 10})
        shown = await report(world, http, id)
        assert sum(int(one["values"][0]["units"]) for one in shown["variants"]) == 100
        assert sum(int(one["requests"]) for one in shown["variants"]) == 200 + 3 * 99
        assert [one["values"][0]["value"] for one in shown["variants"]] == [10, 10]

    async def test_cost_of_tokens_and_their_prices(self, world: World, http: httpx.AsyncClient) -> None:
        id = await started(http, primary=COST, price=PRICE)
        for user in range(120):
            await ask(http, f"user {user}", "say " + "word " * (user % 5))
        shown = await report(world, http, id)
        for variant in shown["variants"]:
            records = [one for one in await world.records() if one.variant == variant["name"]]
            tokens = sum(one.prompt_tokens + 4 * one.completion_tokens for one in records)
            assert variant["values"][0]["value"] == pytest.approx(tokens / len(records) / 1e6)
        comparison = shown["comparisons"][0]
        assert comparison["measure"] == "MEASURE_COST"
        assert "in cost of an answer" in comparison["sentence"]

    async def test_less_cost_is_better(self, world: World, http: httpx.AsyncClient) -> None:
        id = await started(http, primary=COST, price=PRICE)
        for user in range(120):
            await ask(http, f"user {user}", f"say {'word ' * (user % 3)}")
        for record in await world.records():
            if record.variant == "treatment":
                world.completions.records[record.id] = replace(record, completion_tokens=500)
        comparison = (await report(world, http, id))["comparisons"][0]
        assert comparison["standing"] == "STANDING_WORSE"
        assert comparison["difference"]["value"] > 0

    async def test_what_it_is_shown_with_is_what_was_asked(self, http: httpx.AsyncClient) -> None:
        made = await create(http, primary=ACCEPTED | {"margin": 5.0}, guardrails=[COST], price=PRICE)
        spec = made.json()["experiment"]["spec"]
        assert spec["primary"] == ACCEPTED | {"margin": 5.0}
        assert spec["price"] == PRICE

    async def test_what_is_missing_is_named(self, http: httpx.AsyncClient) -> None:
        refused = await create(http, primary=COST)
        assert faults(refused) == {"spec.price"}
        assert "must be set: cost is counted from tokens and their price" in refused.json()["error"]["message"]
        free = {"prompt_per_million": 0, "completion_per_million": 0}
        assert faults(await create(http, primary=COST, price=free)) == {"spec.price.completion_per_million"}
        assert faults(await create(http, primary=COST, price={"prompt_per_million": -1})) == {
            "spec.price.prompt_per_million"
        }
        assert faults(await create(http, primary={"measure": "MEASURE_NAMED"})) == {
            "spec.primary.name",
            "spec.primary.direction",
        }
        quality = {"measure": "MEASURE_QUALITY", "name": "x", "direction": "DIRECTION_LESS_IS_BETTER"}
        assert faults(await create(http, primary=ACCEPTED, guardrails=[quality])) == {
            "spec.guardrails[0].name",
            "spec.guardrails[0].direction",
        }
        assert faults(await create(http, primary=ACCEPTED, guardrails=[ACCEPTED | {"margin": 1}])) == {
            "spec.guardrails"
        }

    async def test_a_plan_by_a_named_metric(self, http: httpx.AsyncClient) -> None:
        for user in range(70):
            answer = await ask(http, f"user {user}")
            await give(http, answer["id"], metrics={"accepted_chars": user % 10})
        plan = {"model": "starter", "effect": 1.0, "units_per_day": 10}
        found = await http.post("/api/v1/experiments/plan", json=plan | {"primary": ACCEPTED, "deviation": 3.0})
        assert found.json()["deviation"] == 3.0
        refused = await http.post("/api/v1/experiments/plan", json=plan | {"primary": COST})
        assert faults(refused) == {"price"}


class TestFeedback:
    async def test_beside_a_score_and_replaced_by_name(self, world: World, http: httpx.AsyncClient) -> None:
        id = (await ask(http, "ann"))["id"]
        first = await give(http, id, score=0.5, metrics={"a": 1, "b": 2})
        assert first.json() == {"score": 0.5}
        await give(http, id, thumb="THUMB_UP", metrics={"b": 3})
        record = await world.completions.get(id)
        assert (record.score, record.metrics) == (1.0, {"a": 1, "b": 3})

    async def test_alone_they_leave_the_text_for_its_tests(self, world: World, http: httpx.AsyncClient) -> None:
        world.grader.problems.add("hi")
        id = (await ask(http, "ann"))["id"]
        await give(http, id, metrics={"a": 1})
        problem = {"problem_set": "composed/test", "problem_id": "hi"}
        for value in (2, 3):  # the second time it is graded already
            graded = await give(http, id, problem=problem, metrics={"a": value})
            assert graded.status_code == 200, graded.text
        assert (await world.completions.get(id)).metrics == {"a": 3}
        assert world.grader.graded == 1

    async def test_beside_an_accepted_text_and_a_choice(self, world: World) -> None:
        await world.key()
        answer, other = await world.ask(), await world.ask()
        feedback = world.gateway.feedback
        await feedback.give(FeedbackRequest(answer.id, Accepted("used"), {"accepted_chars": 4}))
        await feedback.give(FeedbackRequest(answer.id, Choice(0, other.id, 0), {"seconds": 2}))
        assert (await world.completions.get(answer.id)).metrics == {"accepted_chars": 4, "seconds": 2}
        with pytest.raises(InvalidArgument, match="metrics"):
            await feedback.give(FeedbackRequest(answer.id, Choice(0, other.id, 0), {"Seconds": 2}))

    @pytest.mark.parametrize(
        ("metrics", "field"),
        [
            ({"Accepted": 1}, "metrics"),
            ({"": 1}, "metrics"),
            ({"a" * 64: 1}, "metrics"),
            ({f"m{number}": 1 for number in range(21)}, "metrics"),
            ({"a": "NaN"}, "metrics.a"),
            ({"a": "Infinity"}, "metrics.a"),
            ({"a": 1.1e12}, "metrics.a"),
        ],
    )
    async def test_bounds(self, http: httpx.AsyncClient, metrics: Mapping[str, Any], field: str) -> None:
        id = (await ask(http, "ann"))["id"]
        assert faults(await give(http, id, metrics=metrics)) == {field}
        assert field in faults(await give(http, id, score=2, metrics=metrics))

    async def test_neither_a_source_nor_metrics(self, http: httpx.AsyncClient) -> None:
        id = (await ask(http, "ann"))["id"]
        assert faults(await give(http, id, metrics={})) == {"source"}
        assert (await give(http, id, metrics={"a": "much"})).status_code == 400

    async def test_so_many_of_one_completion(self, world: World) -> None:
        give = world.gateway.feedback.give
        id = (await world.ask()).id
        await give(FeedbackRequest(id, None, {f"m{number}": 1.0 for number in range(20)}))
        await give(FeedbackRequest(id, None, {"m0": 2.0}))
        with pytest.raises(FailedPrecondition, match="more than 20 metrics"):
            await world.gateway.feedback.give(FeedbackRequest(id, Score(1.0), {"another": 1.0}))
        record = await world.completions.get(id)
        assert (record.score, record.metrics["m0"]) == (None, 2.0)

    async def test_a_repeated_request_changes_nothing(self, world: World) -> None:
        feedback, id = world.gateway.feedback, (await world.ask()).id
        await feedback.give(FeedbackRequest(id, None, {"a": 1.0}, "req_1"))
        await feedback.give(FeedbackRequest(id, None, {"a": 2.0}, "req_2"))
        await feedback.give(FeedbackRequest(id, None, {"a": 1.0}, "req_1"))
        assert (await world.completions.get(id)).metrics == {"a": 2.0}
        for other in (
            feedback.give(FeedbackRequest(id, None, {"a": 3.0}, "req_1")),
            feedback.give(FeedbackRequest(id, Score(0.0), request_id="req_1")),
        ):
            with pytest.raises(AlreadyExists):
                await other
        await feedback.give(FeedbackRequest(id, Score(0.5), {"a": 4.0}, "req_3"))
        with pytest.raises(AlreadyExists):
            await feedback.give(FeedbackRequest(id, Score(0.5), {"a": 5.0}, "req_3"))

    async def test_only_of_ones_own_completions(self, world: World) -> None:
        await world.key("one")
        theirs = (await world.ask()).id
        await world.key("two")
        with pytest.raises(PermissionDenied):
            await world.gateway.feedback.give(FeedbackRequest(theirs, None, {"a": 1.0}))
        with pytest.raises(NotFound):
            await world.gateway.feedback.give(FeedbackRequest("cmpl_none", None, {"a": 1.0}))
        set_caller(ANYBODY)  # an administrator
        await world.gateway.feedback.give(FeedbackRequest(theirs, None, {"a": 1.0}))
