"""/v1 over HTTP, and through OpenAI's own client."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta

import openai
import pytest

from gateway_service.domain.releases.release import Stage
from ratchet_kit.errors import ResourceExhausted, Unavailable
from ratchet_policies import Tool, Tools
from ratchet_problems import Message, ToolCall

from ..doubles import policy_id_of
from ..world import ADMIN_KEY, World

HI = [{"role": "user", "content": "say hi to all"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}, "strict": True},
}
CALL = {"id": "call_7", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


@pytest.fixture
async def http(world: World):
    async with world.http() as client:
        yield client


async def chat(http, **body):
    return await http.post("/v1/chat/completions", json={"model": "starter", "messages": HI, **body})


async def test_chat(http) -> None:
    response = await chat(http, n=2, logprobs=True, temperature=0, stop=["x"], seed=1, max_completion_tokens=9)
    body = response.json()
    assert response.status_code == 200
    assert [choice["message"] for choice in body["choices"]] == [{"role": "assistant", "content": "say hi to all"}] * 2
    assert body["model"] == response.headers["x-ratchet-version"] == "starter@1"
    assert body["system_fingerprint"] == response.headers["x-ratchet-policy-id"] == policy_id_of("starter/1")
    assert body["usage"] == {"prompt_tokens": 4, "completion_tokens": 8, "total_tokens": 12}
    assert body["choices"][0]["logprobs"]["content"][1] == {
        "token": "hi",
        "logprob": -0.5,
        "bytes": [104, 105],
        "top_logprobs": [],
    }
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_completions(http) -> None:
    response = await http.post("/v1/completions", json={"model": "starter@2", "prompt": ["say hi"], "logprobs": 0})
    body = response.json()
    assert (body["object"], body["model"], body["choices"][0]["text"]) == ("text_completion", "starter@2", "say hi")
    assert body["choices"][0]["logprobs"]["token_logprobs"] == [-0.5, -0.5]


async def test_the_likeliest_tokens(http) -> None:
    chosen = (await chat(http, logprobs=True, top_logprobs=2)).json()["choices"][0]["logprobs"]["content"]
    assert [one["logprob"] for one in chosen[0]["top_logprobs"]] == [-1.5, -2.5]
    body = {"model": "starter", "prompt": "say hi", "logprobs": 1, "stream": True}
    lines = (await http.post("/v1/completions", json=body)).text.split("\n\n")
    pieces = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-2]]
    assert [piece["logprobs"]["tokens"] for piece in pieces] == [["say"], ["hi"]]
    assert [piece["logprobs"]["text_offset"] for piece in pieces] == [[0], [3]]
    assert pieces[0]["logprobs"]["top_logprobs"] == [{"say": -1.5}]


async def test_what_steers_the_sampling_reaches_the_engine(world: World, http) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    await chat(http, presence_penalty=0.5, frequency_penalty=-1, logit_bias={"7": -100}, response_format=wanted)
    await chat(http, response_format={"type": "json_object"})
    steered, any_object = world.engine.samplings
    assert (steered.presence_penalty, steered.frequency_penalty) == (0.5, -1)
    assert steered.logit_bias == {7: -100}
    assert json.loads(steered.json_schema) == schema
    assert json.loads(any_object.json_schema) == {"type": "object"}


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_and_their_echo(world: World, http, stream: bool) -> None:
    body = {"model": "starter", "prompt": ["say hi", "go"], "n": 2, "echo": True, "stream": stream}
    reply = await http.post("/v1/completions", json=body)
    if stream:
        lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        pieces = [json.loads(line)["choices"][0] for line in lines[:-1]]
    else:
        pieces = reply.json()["choices"]
        assert reply.json()["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
        assert len({piece["completion_id"] for piece in pieces}) == 2
    texts = {index: "".join(one["text"] for one in pieces if one["index"] == index) for index in range(4)}
    assert texts == {0: "say hisay hi", 1: "say hisay hi", 2: "gogo", 3: "gogo"}
    assert len(await world.records()) == 2


async def test_one_of_several_prompts_fails(world: World, http) -> None:
    for stream in (False, True):
        body = {"model": "starter", "prompt": ["say hi", ""], "stream": stream}
        reply = await http.post("/v1/completions", json=body)
        assert reply.status_code == 400 or "the prompt is empty" in reply.text


@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_with_its_logprobs(http, stream: bool) -> None:
    body = {
        "model": "starter",
        "prompt": [[1, 2, 3], [4, 5]],
        "echo": True,
        "logprobs": 1,
        "stream": stream,
        "max_tokens": 9,
    }
    reply = await http.post("/v1/completions", json=body)
    if stream:
        lines = [json.loads(line.removeprefix("data: ")) for line in reply.text.split("\n\n")[:-2]]
        pieces = [line["choices"][0] for line in lines]
        first = [next(piece for piece in pieces if piece["index"] == index) for index in (0, 1)]
        assert [one["text"] for one in first] == ["1 2 31", "4 54"]
        assert [one["logprobs"]["tokens"] for one in first] == [["1", "2", "3", "1"], ["4", "5", "4"]]
    else:
        first = reply.json()["choices"]
        assert [one["text"] for one in first] == ["1 2 31 2 3", "4 54 5"]
        assert first[1]["logprobs"]["token_logprobs"] == [None, -0.5, -0.5, -0.5]
        assert first[1]["logprobs"]["text_offset"] == [0, 1, 2, 3]
    assert first[0]["logprobs"]["token_logprobs"][:4] == [None, -0.5, -0.5, -0.5]
    assert first[0]["logprobs"]["top_logprobs"][:2] == [None, {"2": -1.5}]


async def test_an_echo_alone(http) -> None:
    body = {"model": "starter", "prompt": "say hi", "echo": True, "logprobs": 0, "max_tokens": 0}
    choice = (await http.post("/v1/completions", json=body)).json()["choices"][0]
    assert (choice["text"], choice["logprobs"]["token_logprobs"]) == ("say hi", [None, -0.5])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "tools": []}, "tools"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "stop": ["b"] * 65}, "stop"),
        ({"prompt": "a", "logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
    ],
)
async def test_says_which_parameter_of_a_text_is_wrong(http, body, param) -> None:
    reply = await http.post("/v1/completions", json={"model": "starter"} | body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith(param)


async def test_tools_are_called_and_answered(world: World, http) -> None:
    message = (await chat(http, tools=[WEATHER])).json()["choices"][0]
    (call,) = message["message"]["tool_calls"]
    assert (message["finish_reason"], message["message"]["content"]) == ("tool_calls", None)
    assert call == {
        "id": "call_0",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"said": "say hi to all"}'},
    }
    said = [*HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    answered = await chat(
        http, messages=[*said, {"role": "tool", "tool_call_id": "call_7", "content": "sunny"}], tools=[WEATHER]
    )
    assert answered.json()["choices"][0]["message"] == {"role": "assistant", "content": "sunny"}
    prompt = world.engine.prompts[-1]
    assert prompt.messages[1:] == (
        Message("assistant", "", (ToolCall("weather", '{"city": "Rome"}', "call_7"),)),
        Message("tool", "sunny", tool_call_id="call_7"),
    )
    assert prompt.tools == Tools((Tool("weather", "Of a city.", '{"type": "object"}', True),))


@pytest.mark.parametrize(
    ("choice", "parallel", "names", "reason"),
    [
        ("auto", None, ["weather", "time"], "tool_calls"),
        ("required", False, ["weather"], "tool_calls"),
        ({"type": "function", "function": {"name": "time"}}, True, ["time"], "stop"),
        ("none", None, [], "stop"),
    ],
)
async def test_which_tools_are_called(http, choice, parallel, names, reason) -> None:
    tools = [WEATHER, {"type": "function", "function": {"name": "time"}}]
    body = {"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}
    answer = (await chat(http, **body)).json()["choices"][0]
    assert [call["function"]["name"] for call in answer["message"].get("tool_calls", [])] == names
    assert answer["finish_reason"] == reason


async def test_calls_in_pieces(http) -> None:
    reply = await chat(http, tools=[WEATHER], stream=True, stream_options={"include_usage": True})
    lines = [json.loads(line.removeprefix("data: ")) for line in reply.text.split("\n\n")[:-2]]
    *pieces, usage = lines
    deltas = [piece["choices"][0]["delta"] for piece in pieces]
    assert deltas == [
        {
            "role": "assistant",
            "tool_calls": [
                {"index": 0, "id": "call_0", "type": "function", "function": {"name": "weather", "arguments": ""}}
            ],
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"said": "say hi to all"}'}}]},
    ]
    assert pieces[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"]["completion_tokens"] == 4  # two of which nothing was to be seen


async def test_a_model_that_takes_no_tools_says_what_to_set(world: World, http) -> None:
    world.engine.reads_calls = False
    reply = await chat(http, tools=[WEATHER])
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, "tools")
    assert "RATCHET_ROLLOUT_TOOL_PARSERS" in error["message"]


async def test_prompts_of_tokens(http) -> None:
    for prompt in ([1, 2], [[1, 2], [3]]):
        reply = await http.post("/v1/completions", json={"model": "starter", "prompt": prompt})
        assert reply.json()["choices"][0]["text"] == "1 2"


async def test_a_stream_ends_with_done(http) -> None:
    response = await chat(http, stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-ratchet-version"] == "starter@1"
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    *chunks, usage = [json.loads(line) for line in lines[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "say"}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == "say hi to all"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] == 8


@pytest.mark.parametrize("stream", [False, True])
async def test_a_champion_without_weights_is_named_and_no_file_of_ours(world: World, http, stream: bool) -> None:
    world.engine.refuse_sources = {"starter/1": "/srv/artifacts/ab12 holds no policy: no .safetensors file in it"}
    reply = await chat(http, stream=stream)
    assert (reply.status_code, reply.json()["error"]["type"]) == (500, "server_error")
    said = reply.json()["error"]["message"]
    assert said.startswith("starter@1 cannot be served")
    assert "no .safetensors file" in said
    assert "/srv" not in said


async def test_what_the_engine_broke_off_is_an_error_and_no_answer(world: World, http) -> None:
    """Never a 200 with `finish_reason: length`; in a stream that has begun it is the last event."""
    world.engine.breaks_off_after = {"starter@1": 2}
    whole = await chat(http)
    assert (whole.status_code, whole.json()["error"]["code"]) == (503, "unavailable")
    response = await chat(http, stream=True)
    *chunks, last = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None]
    assert (last["error"]["type"], last["error"]["code"]) == ("server_error", "unavailable")
    world.engine.breaks_off_after = {"starter@1": 0}
    assert (await chat(http, stream=True)).status_code == 503


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"tools": [{"type": "function"}]}, "tools.0.function", None),
        ({"tools": [{"type": "function", "function": {"name": "two words"}}]}, "tools.0.function.name", None),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", None),
        ({"tool_choice": "required"}, "tool_choice", None),
        ({"functions": [WEATHER["function"]]}, "functions", "unsupported_parameter"),
        ({"prediction": {"type": "content"}}, "prediction", "unsupported_parameter"),
        ({"presence_penalty": 3}, "presence_penalty", None),
        ({"logit_bias": {"1": 101}}, "logit_bias.1", None),
        ({"response_format": {"type": "yaml"}}, "response_format", None),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.json_schema", None),
        ({"top_logprobs": 2}, "top_logprobs", None),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", None),
        ({"banana": 1}, "banana", None),
        ({"temperature": 3}, "temperature", None),
        ({"n": 0}, "n", None),
        ({"messages": []}, "messages", None),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0", None),
        ({"messages": [{"role": "user"}]}, "messages.0", None),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "messages.0", None),
        ({"model": "Bad Name"}, "model", None),
    ],
)
async def test_says_which_parameter_is_wrong(http, body, param, code) -> None:
    response = await chat(http, **body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert error["message"]


async def test_neutral_values_of_unsupported_parameters_pass(http) -> None:
    response = await chat(http, presence_penalty=0, tools=[], response_format={"type": "text"}, logit_bias=None)
    assert response.status_code == 200


async def test_errors_have_openais_shape(world: World, http) -> None:
    unknown = await chat(http, model="nobody")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    keyless = await http.get("/v1/models", headers={"Authorization": "Bearer rk_no"})
    assert (keyless.status_code, keyless.json()["error"]["code"]) == (401, "invalid_api_key")

    def busy(name: str) -> None:
        raise ResourceExhausted("too many requests wait", timedelta(seconds=1.5))

    world.engine.before_answer = busy
    refused = await chat(http)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")


async def test_503_while_the_model_is_loaded(world: World, http) -> None:
    world.engine.loads_at_once = False
    response = await chat(http)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "is being loaded" in response.json()["error"]["message"]


async def test_a_stream_that_cannot_start_is_an_ordinary_error(world: World, http) -> None:
    def die(name: str) -> None:
        raise Unavailable("the engine died")

    world.engine.before_answer = die
    assert (await chat(http, stream=True)).status_code == 503


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_says_its_arm_and_what_the_gateway_took(world: World, http, stream) -> None:
    def think(name: str) -> None:
        world.clock.advance(timedelta(seconds=7))

    world.engine.before_answer = think
    alone = await chat(http, stream=stream)
    assert "x-ratchet-arm" not in alone.headers
    release = await world.release((Stage(50, timedelta(hours=1), 0), Stage(100, timedelta(0), 0)))
    await world.until_progressing(release)
    arms = set()
    for user in "abcdefgh":
        headers = (await chat(http, user=user, stream=stream)).headers
        arms.add((headers["x-ratchet-version"], headers["x-ratchet-arm"]))
        assert float(headers["x-ratchet-overhead-ms"]) >= 0
    assert arms == {("starter@1", "baseline"), ("starter@2", "candidate")}


async def test_the_routing_key_is_the_user_or_the_header(world: World, http) -> None:
    release = await world.release((Stage(50, timedelta(hours=1), 0), Stage(100, timedelta(0), 0)))
    await world.until_progressing(release)
    by_user = {user: {(await chat(http, user=user)).json()["model"] for _ in range(5)} for user in "abcdefgh"}
    assert all(len(versions) == 1 for versions in by_user.values())
    assert len(set.union(*by_user.values())) == 2
    for user, versions in by_user.items():
        response = await http.post(
            "/v1/chat/completions",
            json={"model": "starter", "messages": HI, "user": "someone"},
            headers={"x-ratchet-routing-key": user},
        )
        assert {response.json()["model"]} == versions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 2**63),
        ("seed", -(2**63) - 1),
        ("max_tokens", 2**31),
        ("max_completion_tokens", 2**31),
        ("top_k", 2**31),
        ("stop", "\ud800"),
        ("user", "\ud800"),
        ("messages", [{"role": "user", "content": "\ud800"}]),
    ],
)
async def test_what_no_engine_can_be_sent_is_the_callers_fault(http, name, value) -> None:
    body = json.dumps({"model": "starter", "messages": HI, name: value})
    response = await http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(name)


async def test_models(http) -> None:
    listed = (await http.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["starter"]
    for model in ("starter", "starter@2", "starter:champion"):
        assert (await http.get(f"/v1/models/{model}")).json()["id"] == model
    assert (await http.get("/v1/models/starter@9")).status_code == 404


async def test_through_openais_own_client(world: World) -> None:
    async with world.http() as http:
        client = openai.AsyncOpenAI(api_key=ADMIN_KEY, base_url="http://gateway/v1", http_client=http, max_retries=0)
        answer = await client.chat.completions.create(model="starter", messages=HI, n=2, user="me")
        assert [choice.message.content for choice in answer.choices] == ["say hi to all"] * 2
        stream = await client.chat.completions.create(model="starter", messages=HI, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "say hi to all"
        text = await client.completions.create(model="starter", prompt="say hi", max_tokens=5)
        assert text.choices[0].text == "say hi"
        assert [model.id async for model in client.models.list()] == ["starter"]
        assert (await client.models.retrieve("starter@2")).id == "starter@2"
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="nobody", messages=HI)
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="starter", messages=HI, frequency_penalty=3)
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="rk_wrong").models.list()


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_nobody_waits_for_is_not_made(
    world: World, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def generate(*args: object, **options: object) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def stream(*args: object) -> AsyncGenerator[object]:
        yield await generate()

    monkeypatch.setattr(world.engine, "generate", generate)
    monkeypatch.setattr(world.engine, "stream", stream)
    body = json.dumps({"model": "starter", "messages": HI, "stream": streams}).encode()
    messages = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop()
        await asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None: ...

    headers = [(b"authorization", f"Bearer {ADMIN_KEY}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers, "query_string": b""}
    async with asyncio.timeout(5):
        await world.gateway.http(scope, receive, send)
    assert stopped.is_set()


@pytest.mark.parametrize(
    "messages", [HI * 10_001, [{"role": "user", "content": [{"type": "text", "text": ""}] * 1001}]]
)
async def test_a_chat_has_a_number_of_messages_and_parts(http, messages) -> None:
    reply = await http.post("/v1/chat/completions", json={"model": "starter", "messages": messages})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith("messages")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, text)
            for name in ("n", "max_tokens", "seed", "top_k", "temperature")
            for text in ("1_0", "+1", "1", "1\n")
        ),
        *((name, True) for name in ("n", "max_tokens", "temperature", "top_p")),
        *(("stream", value) for value in ("yes", "true", 1, "on")),
        ("logprobs", "false"),
        ("parallel_tool_calls", 0),
        ("stream_options", {"include_usage": "on"}),
        ("logit_bias", {"1_0": 1}),
        ("logit_bias", {"+1": 1}),
        ("logit_bias", {"\u0661": 1}),
        ("logit_bias", {"1": "5"}),
        ("logit_bias", {str(token): 1 for token in range(1025)}),
    ],
)
async def test_numbers_and_flags_are_no_texts(http, name, value) -> None:
    reply = await chat(http, **{name: value})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].split(".")[0] == name


@pytest.mark.parametrize("prompt", [["1", 2], [True], [1.5], [-1], [[1], ["2"]], [2**31]])
async def test_token_ids_are_whole_numbers(http, prompt) -> None:
    reply = await http.post("/v1/completions", json={"model": "starter", "prompt": prompt})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].split(".")[0] == "prompt"


async def test_the_simplest_door_takes_no_texts_for_numbers(http) -> None:
    for name, value in (("max_tokens", "1_0"), ("max_tokens", True), ("temperature", "+1")):
        reply = await http.post("/generate", json={"model": "starter", "prompt": "say hi", name: value})
        assert reply.status_code == 400
        assert [one["field"] for one in reply.json()["error"]["violations"]] == [name]
    assert (
        await http.post("/generate", json={"model": "starter", "prompt": "hi", "max_tokens": 5.0})
    ).status_code == 200
