"""Experiments through both doors of the service, on a database: by a named metric and cost, and offline."""

import asyncio

import httpx
import pytest

from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet.gateway.v1.gateway_pb2_grpc import GatewayServiceStub
from ratchet_kit import client

from .test_service import HI, KEY, Door, door, http, settings

__all__ = ["door", "http", "settings"]
pytestmark = pytest.mark.integration
SPEC = {
    "variants": [
        {"name": name, "version": {"model": "starter", "number": number}}
        for name, number in (("control", 1), ("treatment", 2))
    ],
    "primary": {"measure": "MEASURE_NAMED", "name": "accepted_chars", "direction": "DIRECTION_MORE_IS_BETTER"},
    "guardrails": [{"measure": "MEASURE_COST"}],
    "price": {"prompt_per_million": 1, "completion_per_million": 4},
}


async def test_from_feedback_to_a_conclusion(door: Door, http: httpx.AsyncClient) -> None:
    made = (await http.post("/api/v1/experiments", json={"spec": SPEC})).json()["experiment"]["id"]
    assert (await http.post(f"/api/v1/experiments/{made}/start", json={})).status_code == 200
    key = (("authorization", f"Bearer {KEY}"),)
    async with client.channel(door.target) as channel:
        stub = GatewayServiceStub(channel)
        for user in range(80):
            body = {"model": "starter", "user": f"user {user}", "messages": HI}
            answer = (await http.post("/v1/chat/completions", json=body)).json()
            metrics = {"accepted_chars": 100 * (answer["model"] == "starter@2") + user % 7}
            if user % 2:
                given = {"completion_id": answer["id"], "metrics": metrics}
                assert (await http.post("/api/v1/feedback", json=given)).status_code == 200
            else:
                feedback = pb.CreateFeedbackRequest(completion_id=answer["id"], metrics=metrics, score=1)
                assert (await stub.CreateFeedback(feedback, metadata=key)).score == 1
    ended = (await http.post(f"/api/v1/experiments/{made}/conclude", json={})).json()["experiment"]
    accepted, cost, _left = ended["report"]["comparisons"]
    assert (accepted["name"], accepted["standing"]) == ("accepted_chars", "STANDING_BETTER")
    assert ended["report"]["conclusion"].startswith("treatment: better in accepted_chars: +")
    assert (cost["measure"], cost["standing"]) == ("MEASURE_COST", "STANDING_UNDECIDED")
    assert cost["difference"]["value"] == pytest.approx(0, abs=1e-12)  # each answer has the same tokens
    again = (await http.get(f"/api/v1/experiments/{made}")).json()["experiment"]
    assert again["report"] == ended["report"]


async def test_stored_prompts_to_a_conclusion(http: httpx.AsyncClient) -> None:
    spec = {
        "variants": SPEC["variants"],
        "primary": {"measure": "MEASURE_TOKENS", "margin": 1},
        "replay": {"sampling": {"max_tokens": 8}},
    }
    asked = [{"prompt": {"text": f"say {'word ' * (number % 5)}"}} for number in range(120)]
    made = (await http.post("/api/v1/experiments", json={"spec": spec, "prompts": asked})).json()["experiment"]
    await http.post(f"/api/v1/experiments/{made['id']}/start", json={})
    async with asyncio.timeout(120):
        while (shown := (await http.get(f"/api/v1/experiments/{made['id']}")).json()["experiment"])["state"] in (
            "STATE_DRAFT",
            "STATE_RUNNING",
        ):
            await asyncio.sleep(0.1)
    assert (shown["state"], shown["prompts"]) == ("STATE_CONCLUDED", 120)
    assert [one["requests"] for one in shown["report"]["variants"]] == ["120", "120"]
    assert shown["report"]["conclusion"].startswith("treatment: ")
    assert "no difference worth waiting for in tokens an answer" in shown["report"]["conclusion"]
