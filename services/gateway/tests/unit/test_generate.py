"""POST /generate."""

import pytest

from ratchet_policies import ChatPrompt, Sampling
from ratchet_problems import Message

from ..world import World


async def test_a_prompt_becomes_a_text(world: World) -> None:
    body = {"model": "starter", "prompt": "say hi", "max_tokens": 5, "temperature": 0}
    async with world.http() as http:
        reply = await http.post("/generate", json=body)
    assert reply.json() == {"text": "say hi", "id": reply.json()["id"], "model": "starter@1"}
    assert reply.headers["x-ratchet-version"] == "starter@1"
    assert float(reply.headers["x-ratchet-overhead-ms"]) >= 0
    assert world.engine.prompts == [ChatPrompt((Message("user", "say hi"),))]
    assert world.engine.samplings == [Sampling(temperature=0, max_tokens=5, must_fit=True)]
    assert [record.id for record in await world.records()] == [reply.json()["id"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "starter"}, "prompt"),
        ({"model": "starter", "prompt": "a", "stream": True}, "stream"),
        ({"model": "Bad Name", "prompt": "a"}, "model"),
        ({"model": "starter", "prompt": "a", "max_tokens": 0}, "max_tokens"),
    ],
)
async def test_says_which_field_is_wrong(world: World, body: dict[str, object], field: str) -> None:
    async with world.http() as http:
        reply = await http.post("/generate", json=body)
    assert reply.status_code == 400
    assert [violation["field"] for violation in reply.json()["error"]["violations"]] == [field]


async def test_an_unknown_model_is_not_found(world: World) -> None:
    async with world.http() as http:
        reply = await http.post("/generate", json={"model": "nobody", "prompt": "a"})
        keyless = await http.post("/generate", json={}, headers={"Authorization": ""})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert keyless.status_code == 401
