"""OpenAI's own client, unmodified, against /v1: what it sends is taken, what it reads is there."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import openai
import pytest
from pydantic import BaseModel

from ratchet_kit.errors import ResourceExhausted, Unavailable

from ..world import ADMIN_KEY, World

HI = [{"role": "user", "content": "say hi to all"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "time")]


@pytest.fixture
async def client(world: World) -> AsyncIterator[openai.AsyncOpenAI]:
    async with world.http() as http:
        yield openai.AsyncOpenAI(api_key=ADMIN_KEY, base_url="http://gateway/v1", http_client=http, max_retries=0)


async def test_chat(client) -> None:
    answer = await client.chat.completions.create(
        model="starter", messages=HI, n=2, stop=["x"], seed=1, logprobs=True, top_logprobs=2, max_tokens=9, user="me"
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    first = answer.choices[0]
    assert (first.message.role, first.message.content, first.finish_reason) == ("assistant", "say hi to all", "stop")
    assert [one.token for one in first.logprobs.content] == ["say", "hi", "to", "all"]
    assert [one.logprob for one in first.logprobs.content[0].top_logprobs] == [-1.5, -2.5]
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens == 12


async def test_a_chat_in_pieces_with_its_usage(client) -> None:
    stream = await client.chat.completions.create(
        model="starter", messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "say hi to all"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None, None, None, "stop"]
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 8)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_texts(client) -> None:
    answer = await client.completions.create(model="starter", prompt=["say hi", "go on"], n=2, echo=True)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in answer.choices] == ["say hisay hi"] * 2 + ["go ongo on"] * 2
    scored = await client.completions.create(model="starter", prompt="say hi", logprobs=1)
    logprobs = scored.choices[0].logprobs
    echoed = await client.completions.create(model="starter", prompt="say hi", logprobs=1, echo=True, max_tokens=0)
    assert (echoed.choices[0].text, echoed.choices[0].logprobs.token_logprobs) == ("say hi", [None, -0.5])
    assert (logprobs.tokens, logprobs.token_logprobs, logprobs.text_offset) == (["say", "hi"], [-0.5, -0.5], [0, 3])
    assert logprobs.top_logprobs == [{"say": -1.5}, {"hi": -1.5}]
    stream = await client.completions.create(model="starter", prompt=["say hi", "go"], stream=True)
    texts = {0: "", 1: ""}
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {0: "say hi", 1: "go"}


async def test_a_response_format(world: World, client) -> None:
    class Total(BaseModel):
        total: int

    await client.chat.completions.create(model="starter", messages=HI, response_format={"type": "json_object"})
    reply = await client.chat.completions.parse(
        model="starter", messages=[{"role": "user", "content": '{"total":3}'}], response_format=Total
    )
    assert reply.choices[0].message.parsed == Total(total=3)
    assert '"total"' in world.engine.samplings[-1].json_schema


async def test_tools(client) -> None:
    answer = await client.chat.completions.create(model="starter", messages=HI, tools=TOOLS)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    assert [call.function.name for call in message.tool_calls] == ["weather", "time"]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls]
    after = await client.chat.completions.create(model="starter", messages=[*HI, message, *results], tools=TOOLS)
    assert (after.choices[0].message.content, after.choices[0].message.tool_calls) == ("sunny", None)


async def test_tools_in_pieces(client) -> None:
    async with client.chat.completions.stream(model="starter", messages=HI, tools=TOOLS[:1]) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    assert (call.id, call.function.name) == ("call_0", "weather")
    assert json.loads(call.function.arguments) == {"said": "say hi to all"}


async def test_models(client) -> None:
    assert [model.id async for model in client.models.list()] == ["starter"]
    assert (await client.models.retrieve("starter@2")).id == "starter@2"


async def test_errors(world: World, client) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nobody", messages=HI)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as wrong:
        await client.chat.completions.create(model="starter", messages=HI, temperature=3)
    assert (wrong.value.param, wrong.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="starter", messages=HI, modalities=["audio"])
    assert (refused.value.param, refused.value.code) == ("modalities", "unsupported_parameter")
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="rk_wrong").models.list()

    def busy(name: str) -> None:
        raise ResourceExhausted("too many requests wait", timedelta(seconds=3))

    def away(name: str) -> None:
        raise Unavailable("the engine died")

    world.engine.before_answer = busy
    with pytest.raises(openai.RateLimitError) as limited:
        await client.chat.completions.create(model="starter", messages=HI)
    assert limited.value.response.headers["retry-after"] == "3"
    world.engine.before_answer = away
    with pytest.raises(openai.InternalServerError) as down:
        await client.chat.completions.create(model="starter", messages=HI)
    assert down.value.status_code == 503
