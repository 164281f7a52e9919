"""/v1 over HTTP, and through OpenAI's own client."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from string import ascii_lowercase

import openai
import pytest

from gateway_service.domain.releases.release import Stage
from ratchet_kit.errors import FieldViolation, InvalidArgument, ResourceExhausted, Unavailable
from ratchet_policies import Sampling, TextPrompt, over_length

from ..doubles import policy_id_of
from ..world import ADMIN_KEY, World

HI = [{"role": "user", "content": "say hi to all"}]


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


async def test_a_part_of_a_character_has_no_bytes(http) -> None:
    """Those of the sign that stands for it are not its own."""
    said = [{"role": "user", "content": "é \ufffd"}]
    (choice,) = (await chat(http, messages=said, logprobs=True)).json()["choices"]
    assert [one["bytes"] for one in choice["logprobs"]["content"]] == [[195, 169], None]


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


async def test_a_prompt_that_is_too_long_has_openais_code(world: World, http) -> None:
    def refuse(name: str) -> None:
        said = over_length(900, 512)
        raise InvalidArgument(said, [FieldViolation("prompt.chat", said)])

    world.engine.before_answer = refuse
    for reply in (await chat(http), await chat(http, stream=True)):
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")


async def test_a_path_that_there_is_not_is_no_missing_model(http) -> None:
    for method, path, said in (
        ("POST", "/v1/embeddings", "make no embeddings"),
        ("GET", "/v1/chat", "Here are /v1/chat/completions"),
        ("GET", "/v1/responses/resp_1", "answers are not kept"),
        ("POST", "/v1/files", "data sets are at /api/v1/datasets"),
    ):
        reply = await http.request(method, path, json={"model": "starter", "input": "x"})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (404, "unknown_url", None)
        assert path in error["message"]
        assert said in error["message"]


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
    for user in ascii_lowercase:
        headers = (await chat(http, user=user, stream=stream)).headers
        arms.add((headers["x-ratchet-version"], headers["x-ratchet-arm"]))
        assert float(headers["x-ratchet-overhead-ms"]) >= 0
    assert arms == {("starter@1", "baseline"), ("starter@2", "candidate")}


async def test_the_routing_key_is_the_user_or_the_header(world: World, http) -> None:
    release = await world.release((Stage(50, timedelta(hours=1), 0), Stage(100, timedelta(0), 0)))
    await world.until_progressing(release)
    by_user = {user: {(await chat(http, user=user)).json()["model"] for _ in range(5)} for user in ascii_lowercase}
    assert all(len(versions) == 1 for versions in by_user.values())
    assert len(set.union(*by_user.values())) == 2
    for user, versions in by_user.items():
        response = await http.post(
            "/v1/chat/completions",
            json={"model": "starter", "messages": HI, "user": "someone"},
            headers={"x-ratchet-routing-key": user},
        )
        assert {response.json()["model"]} == versions


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


@pytest.mark.parametrize("stream", [False, True])
async def test_prompts_that_are_given_up_for_another_were_left_by_nobody(world: World, http, stream: bool) -> None:
    generate, stream_of = world.engine.generate, world.engine.stream

    async def wait_or_fail(prompt: TextPrompt) -> None:
        if prompt.text == "fail":
            raise Unavailable("the engine died")
        await asyncio.sleep(60)

    async def slowly(name: str, policy_id: str, prompt: TextPrompt, sampling: Sampling):
        await wait_or_fail(prompt)
        return await generate(name, policy_id, prompt, sampling)

    async def slow_pieces(name: str, policy_id: str, prompt: TextPrompt, sampling: Sampling):
        await wait_or_fail(prompt)
        async for piece in stream_of(name, policy_id, prompt, sampling):
            yield piece

    world.engine.generate, world.engine.stream = slowly, slow_pieces
    prompts = ["say hi", "fail", "say ho"]
    reply = await http.post("/v1/completions", json={"model": "starter", "prompt": prompts, "stream": stream})
    assert reply.status_code == 503
    await asyncio.sleep(0)
    assert [(record.left, record.error) for record in await world.records()] == [(False, "the engine died")]
