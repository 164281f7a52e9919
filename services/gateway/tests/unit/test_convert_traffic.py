"""What is kept of production, over REST: from a consenting key's request to rows of data sets."""

import json
from typing import Any

import httpx
import pytest

from gateway_service.domain.traffic.record import Unit, unit_id

from ..world import World


@pytest.fixture
async def app(world: World) -> httpx.AsyncClient:
    """A client with a consenting key for inference."""
    async with world.http() as admin:
        made = await admin.post("/api/v1/keys", json={"name": "app", "keep_traffic": True})
    assert made.json()["key"]["keep_traffic"] is True
    client = world.http()
    client.headers["Authorization"] = f"Bearer {made.json()['secret']}"
    return client


async def chat(app: httpx.AsyncClient, text: str, **more: Any) -> str:
    body = {"model": "starter", "messages": [{"role": "user", "content": text}], **more}
    answer = await app.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def say(app: httpx.AsyncClient, completion_id: str, **source: Any) -> httpx.Response:
    return await app.post("/api/v1/feedback", json={"completion_id": completion_id, **source})


async def get(world: World, path: str = "", **query: str) -> dict[str, Any]:
    await world.gateway.recorder.flush()
    async with world.http() as admin:
        answer = await admin.get(f"/api/v1/traffic{path}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_an_exchange_with_what_was_said_of_it(world: World, app: httpx.AsyncClient) -> None:
    first = await chat(app, "say hi", user="ann", n=2)
    other = await chat(app, "say hi")
    assert (await say(app, first, thumb="THUMB_UP")).json() == {"score": 1}
    assert (await say(app, other, thumb="THUMB_DOWN")).json() == {"score": 0}
    assert (await say(app, first, accepted={"text": "hello", "index": 1})).json() == {"score": 0}
    assert (await say(app, first, choice={"index": 1})).json() == {"score": 0}
    assert (await say(app, first, choice={"over_id": other})).json() == {"score": 0}
    newest, exchange = (await get(world))["exchanges"]
    assert (newest["id"], newest["score"]) == (other, 0)
    assert (exchange["id"], exchange["score"], exchange["arm"]) == (first, 1, "ARM_NONE")
    assert exchange["prompt"]["chat"]["messages"][0]["content"] == [{"text": "say hi"}]
    assert [answer["content"][0]["text"] for answer in exchange["answers"]] == ["say hi", "say hi"]
    assert exchange["accepted"] == {"text": "hello", "index": 1}
    assert exchange["choices"] == [
        {"index": 1, "over_id": first, "over_index": 0},
        {"index": 0, "over_id": other, "over_index": 0},
    ]
    assert len(exchange["user"]) == 32
    assert "ann" not in json.dumps(exchange)


async def test_rows_of_data_sets(world: World, app: httpx.AsyncClient) -> None:
    asked = await chat(app, "say hi", user="ann")
    await say(app, asked, accepted={"text": "hello"})
    text = await app.post("/v1/completions", json={"model": "starter", "prompt": "def f("})
    await say(app, text.json()["id"], accepted={"text": "x): ..."})
    found = await get(world, "/pairs")
    origins = [one.pop("origin") for one in (*found["pairs"], *found["text_pairs"])]
    ann = unit_id(Unit.USER, "ann")
    assert [(one["exchanges"], one["senders"]) for one in origins] == [
        ([asked], [ann]),
        ([text.json()["id"]], [text.json()["id"]]),
    ]
    assert [len(one["units"]) for one in origins] == [2, 1], "the user's and the key's"
    assert origins[0]["units"][0] == ann
    assert found == {
        "pairs": [
            {
                "prompt": [{"role": "user", "content": "say hi"}],
                "chosen": [{"role": "assistant", "content": "hello"}],
                "rejected": [{"role": "assistant", "content": "say hi"}],
            }
        ],
        "text_pairs": [{"prompt": "def f(", "chosen": "x): ...", "rejected": "def f("}],
        "next_page_token": "",
    }
    (problem,) = (await get(world, "/problems", model="starter"))["problems"]
    assert problem == {
        "id": problem["id"],
        "prompt": "say hi",
        "references": ["hello"],
        "source": "traffic",
        "conversation": [],
    }
    assert (await get(world, "/problems", start_time="2100-01-01T00:00:00Z"))["problems"] == []


async def test_an_inference_key_reads_and_forgets_nothing(world: World, app: httpx.AsyncClient) -> None:
    for path in ("", "/pairs", "/problems"):
        assert (await app.get(f"/api/v1/traffic{path}")).status_code == 403
    assert (await app.post("/api/v1/traffic/forget", json={"user": "ann"})).status_code == 403
    assert (await app.put("/api/v1/keys/key_1/traffic", json={"keep": True})).status_code == 403


async def test_forgetting_and_consent(world: World, app: httpx.AsyncClient) -> None:
    await chat(app, "say hi", user="ann")
    async with world.http() as admin:
        assert (await admin.post("/api/v1/traffic/forget", json={"user": "ann"})).json() == {"removed": 1}
        for wrong in ({}, {"user": ""}, {"user": "ann", "session": "s1"}, {"name": "ann"}):
            assert (await admin.post("/api/v1/traffic/forget", json=wrong)).status_code == 400
        key = next(one for one in (await admin.get("/api/v1/keys")).json()["keys"] if one["name"] == "app")
        off = await admin.put(f"/api/v1/keys/{key['id']}/traffic", json={"keep": False})
        assert off.json()["key"]["keep_traffic"] is False
    await chat(app, "say hi")
    assert (await get(world))["exchanges"] == []


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ({}, 400),
        ({"thumb": "THUMB_UNSPECIFIED"}, 400),
        ({"thumb": 7}, 400),
        ({"accepted": {}}, 400),
        ({"accepted": {"text": "x" * 70_000}}, 400),
        ({"accepted": {"text": "hi", "index": 5}}, 400),
        ({"choice": {}}, 400),
        ({"choice": {"over_id": "cmpl_none"}}, 404),
        ({"accepted": {"text": "hi"}, "score": 1}, 400),
    ],
)
async def test_what_cannot_be_said(world: World, app: httpx.AsyncClient, source: dict[str, Any], status: int) -> None:
    answer = await say(app, await chat(app, "say hi"), **source)
    assert answer.status_code == status, answer.text
    assert (await say(app, "cmpl_none", accepted={"text": "hi"})).status_code == 404


async def test_half_a_surrogate_pair_is_no_text(world: World, app: httpx.AsyncClient) -> None:
    completion_id = await chat(app, "say hi")
    body = json.dumps({"completion_id": completion_id, "accepted": {"text": "\ud800"}})
    answer = await app.post("/api/v1/feedback", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
