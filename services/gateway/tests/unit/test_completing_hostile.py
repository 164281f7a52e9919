"""The doors of clients, as a hostile one sends and leaves them: no 5xx, no answer lost, nothing recorded wrongly."""

import asyncio
import json
from typing import Any

import pytest

from ratchet_policies import Completion, Delta, FinishReason, Generation
from ratchet_problems import ToolCall

from ..doubles import policy_id_of
from ..world import ADMIN_KEY, World

HI = [{"role": "user", "content": "say hi to all"}]
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
COUNT = f"{MESSAGES}/count_tokens"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "starter", "messages": HI},
    RESPONSES: {"model": "starter", "input": HI},
    MESSAGES: {"model": "starter", "messages": HI, "max_tokens": 9},
    COUNT: {"model": "starter", "messages": HI},
}
ODD: tuple[Any, ...] = (None, True, 5, -1, 1e300, "", "\ud800", "\x00", [], [[]], [None], [5], {}, {"type": []}, [{}])
DEEP = 3_000


async def send(http, path: str, body: str) -> Any:
    return await http.post(path, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("path", BODIES)
async def test_fields_of_wrong_types_are_the_callers_fault(world: World, http, path: str) -> None:
    spec = (await http.get("/openapi.json")).json()
    name = spec["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
    for field in spec["components"]["schemas"][name]["properties"]:
        for value in ODD:
            reply = await send(http, path, json.dumps(BODIES[path] | {field: value}))
            assert reply.status_code in (200, 400, 404), (field, value, reply.text)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("item", [*ODD, {"role": []}, {"role": "user"}, {"type": "message"}])
async def test_so_are_messages_that_are_none(http, path: str, item: Any) -> None:
    field = "input" if path == RESPONSES else "messages"
    for value in ([item], [*HI, item], [{"role": "user", "content": item}], [{"role": "user", "content": [item]}]):
        reply = await send(http, path, json.dumps(BODIES[path] | {field: value}))
        assert reply.status_code in (200, 400), (value, reply.text)


@pytest.mark.parametrize("path", BODIES)
async def test_half_of_a_surrogate_pair_is_the_callers_fault_wherever_it_is(http, path: str) -> None:
    half, said = "\ud800", [{"role": "user", "content": [{"type": "\ud800"}]}]
    schema = {"format": {"type": "json_schema", "name": half, "schema": {}}}
    for more in ({half: 1}, {"input" if path == RESPONSES else "messages": said}, {"model": half}, {"text": schema}):
        reply = await send(http, path, json.dumps(BODIES[path] | more))
        assert (reply.status_code, bool(reply.json()["error"]["message"])) == (400, True), (more, reply.text)


@pytest.mark.parametrize("path", BODIES)
async def test_two_systems_and_empty_messages_reach_the_model(world: World, http, path: str) -> None:
    field = "input" if path == RESPONSES else "messages"
    said = [{"role": role, "content": text} for role, text in (("user", ""), ("assistant", ""), ("user", "say hi"))]
    systems = (
        [] if path in (MESSAGES, COUNT) else [{"role": "system", "content": "a"}, {"role": "system", "content": ""}]
    )
    reply = await send(http, path, json.dumps(BODIES[path] | {field: [*systems, *said]}))
    assert reply.status_code == 200, reply.text
    assert [one.role for one in world.engine.prompts[-1].messages][-3:] == ["user", "assistant", "user"]


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES, COUNT])
@pytest.mark.parametrize("depth", [300, DEEP])
@pytest.mark.parametrize("stream", ["false", "true"])
async def test_values_in_values_without_end_are_refused(http, path: str, depth: int, stream: str) -> None:
    nested = "[" * depth + "]" * depth
    tool = '{"type": "%s", "name": "x", "%s": {"a": %s}}'
    kind, schema = ("function", "parameters") if path == RESPONSES else ("custom", "input_schema")
    body = json.dumps(BODIES[path])[:-1] + f', "tools": [{tool % (kind, schema, nested)}]'
    body += "}" if path == COUNT else f', "stream": {stream}}}'
    reply = await send(http, path, body)
    assert reply.status_code == 400, reply.text


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("stream", ["false", "true"])
async def test_a_number_beyond_all_is_none_in_a_schema(http, path: str, stream: str) -> None:
    """It came back in a stream as Infinity, which is no JSON."""
    schema = '{"a": 1e999}'
    tool = {
        CHAT: f'{{"type": "function", "function": {{"name": "x", "parameters": {schema}}}}}',
        RESPONSES: f'{{"type": "function", "name": "x", "parameters": {schema}}}',
        MESSAGES: f'{{"name": "x", "input_schema": {schema}}}',
    }
    reply = await send(http, path, json.dumps(BODIES[path])[:-1] + f', "tools": [{tool[path]}], "stream": {stream}}}')
    assert reply.status_code == 400, reply.text
    assert "tools.0" in reply.json()["error"]["message"]


def answering(world: World, *pieces: Completion) -> None:
    """Makes the engine answer so."""
    policy = policy_id_of("starter/1")

    async def generate(*args: object) -> Generation:
        (whole,) = pieces
        return Generation((whole,), policy, 1)

    async def stream(*args: object):
        for piece in pieces:
            yield Delta(piece, policy)

    world.engine.generate, world.engine.stream = generate, stream


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    "arguments", ["", "null", "[1]", '{"a":', "{" * DEEP, nested(300), nested(DEEP), "1e999", '{"a": "\\ud800"}']
)
async def test_arguments_that_are_no_object_are_an_answer(world: World, http, arguments: str) -> None:
    answering(world, Completion(0, "", FinishReason.TOOL_CALLS, (1,), tool_calls=(ToolCall("run", arguments, "c1"),)))
    for stream in (False, True):
        message = await http.post(MESSAGES, json=BODIES[MESSAGES] | {"stream": stream})
        assert message.status_code == 200
        assert stream or message.json()["content"][0]["input"] == {}
        response = await http.post(RESPONSES, json=BODIES[RESPONSES] | {"stream": stream})
        assert response.status_code == 200
        assert stream or response.json()["output"][0]["arguments"] == arguments


async def test_arguments_that_were_cut_off_come_as_far_as_they_go(world: World, http) -> None:
    """As Anthropic's clients read those of a stream."""
    call = ToolCall("run", '{"a": 1, "b": ["x", "y', "c1")
    answering(world, Completion(0, "", FinishReason.LENGTH, (1,), tool_calls=(call,)))
    reply = (await http.post(MESSAGES, json=BODIES[MESSAGES])).json()
    assert (reply["stop_reason"], reply["content"][0]["input"]) == ("max_tokens", {"a": 1, "b": ["x"]})


async def test_characters_of_several_tokens_come_whole(world: World, http) -> None:
    """The engine holds back what is no character yet: its piece has tokens, and no text."""
    texts = ("", "🦊", "", "é\u2028\n\n", 'data: x"')
    last = len(texts) - 1
    reasons = [FinishReason.STOP if place == last else FinishReason.UNFINISHED for place in range(len(texts))]
    answering(world, *(Completion(0, text, reason, (1,)) for text, reason in zip(texts, reasons, strict=True)))
    for path, kind in ((MESSAGES, "content_block_delta"), (RESPONSES, "response.output_text.delta")):
        lines = (await http.post(path, json=BODIES[path] | {"stream": True})).text.split("\n")
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        deltas = [one["delta"] for one in events if one["type"] == kind]
        assert "".join(one["text"] if path == MESSAGES else one for one in deltas) == "".join(texts)
        usage = events[-2]["usage"] if path == MESSAGES else events[-1]["response"]["usage"]
        assert usage["output_tokens"] == len(texts)


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
async def test_who_leaves_amid_a_stream_is_on_record_and_the_engine_stops(world: World, path: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def stream(*args: object):
        try:
            yield Delta(Completion(0, "say", token_ids=(1,)), policy_id_of("starter/1"), 4)
            await asyncio.Event().wait()
        finally:
            stopped.set()

    world.engine.stream = stream
    waiting = [{"type": "http.request", "body": json.dumps(BODIES[path] | {"stream": True}).encode()}]

    async def receive() -> dict[str, object]:
        if waiting:
            return waiting.pop()
        await begun.wait()
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        if b"say" in message.get("body", b""):
            begun.set()

    headers = [(b"x-api-key", ADMIN_KEY.encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    async with asyncio.timeout(20):
        await world.gateway.http(scope, receive, take)
    assert stopped.is_set()
    assert [record.left for record in await world.records()] == [True]
