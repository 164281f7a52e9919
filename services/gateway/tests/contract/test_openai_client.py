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


FUNCTIONS = [{"type": "function", "name": name, "parameters": {}, "strict": False} for name in ("weather", "time")]


async def test_a_response(client) -> None:
    answer = await client.responses.create(
        model="starter", input="say hi to all", instructions="Be brief.", metadata={"team": "a"}, user="me"
    )
    assert (answer.output_text, answer.status, answer.model) == ("say hi to all", "completed", "starter@1")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (4, 4, 8)
    assert (answer.instructions, answer.metadata, answer.store) == ("Be brief.", {"team": "a"}, False)
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "and go on"}]}]
    after = await client.responses.create(model="starter", input=[*answer.output, *parts])
    assert after.output_text == "and go on"
    cut = await client.responses.create(model="starter", input="say hi to all", max_output_tokens=2)
    assert (cut.output_text, cut.status, cut.incomplete_details.reason) == ("say hi", "incomplete", "max_output_tokens")


async def test_a_response_in_pieces(client) -> None:
    async with client.responses.stream(model="starter", input="say hi to all") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [event.type.removeprefix("response.") for event in events] == [
        *("created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * 4),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (final.output_text, final.usage.total_tokens) == ("say hi to all", 8)
    whole = await client.responses.create(model="starter", input="say hi to all")
    for part in (final, whole):
        part.id = part.output[0].id = ""
    assert final.model_dump(exclude={"output"}) == whole.model_dump(exclude={"output"})
    cut = [
        one
        async for one in await client.responses.create(model="starter", input="a b c", stream=True, max_output_tokens=2)
    ]
    assert (cut[-1].type, cut[-1].response.output[0].status) == ("response.incomplete", "incomplete")


async def test_a_response_of_a_type(world: World, client) -> None:
    class Total(BaseModel):
        total: int

    reply = await client.responses.parse(model="starter", input='{"total":3}', text_format=Total)
    assert reply.output_parsed == Total(total=3)
    assert '"total"' in world.engine.samplings[-1].json_schema
    assert reply.text.format.schema_["required"] == ["total"]


async def test_tools_of_a_response(client) -> None:
    answer = await client.responses.create(model="starter", input="say hi to all", tools=FUNCTIONS)
    assert [(item.type, item.name) for item in answer.output] == [
        ("function_call", "weather"),
        ("function_call", "time"),
    ]
    results = [{"type": "function_call_output", "call_id": one.call_id, "output": "sunny"} for one in answer.output]
    asked = {"role": "user", "content": "say hi to all"}
    after = await client.responses.create(model="starter", input=[asked, *answer.output, *results], tools=FUNCTIONS)
    assert after.output_text == "sunny"
    async with client.responses.stream(model="starter", input="say hi to all", tools=FUNCTIONS) as stream:
        pieces = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert [json.loads(item.arguments) for item in final.output] == [{"said": "say hi to all"}] * 2
    assert pieces.count("response.function_call_arguments.done") == 2


async def test_errors_of_a_response(world: World, client) -> None:
    for body, param in (
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"tools": [{"type": "web_search"}]}, "tools.0"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input.0.content.0"),
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.responses.create(**{"model": "starter", "input": "hi"} | body)
        assert wrong.value.param == param
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.responses.create(model="nobody", input="hi", stream=True)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError, match="answers are not kept") as kept:
        await client.responses.retrieve("resp_1")
    assert kept.value.code == "unknown_url"
    world.engine.breaks_off_after = {"starter@1": 2}
    with pytest.raises(openai.APIError, match="broke the answer off"):
        async for _ in await client.responses.create(model="starter", input="say hi to all", stream=True):
            pass


async def test_embeddings_are_refused_in_words(client) -> None:
    with pytest.raises(openai.NotFoundError, match="make no embeddings") as refused:
        await client.embeddings.create(model="starter", input="hi")
    assert refused.value.code == "unknown_url"


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
