"""What Anthropic's client sends is taken, and what it reads is there."""

import json
import os
from typing import Any

import anthropic
import pytest

URL, KEY = os.environ["CLIENT_URL"].removesuffix("/v1"), os.environ["CLIENT_KEY"]
HI = [{"role": "user", "content": "say hi to all"}]
TOOLS = [{"name": name, "description": "It.", "input_schema": {"type": "object"}} for name in ("weather", "time")]
BODY = {"model": "starter", "max_tokens": 64, "messages": HI}


def client(**options: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(**{"base_url": URL, "api_key": KEY, "max_retries": 0} | options)


async def create(**body: Any) -> Any:
    return await client().messages.create(**BODY | body)


async def test_a_message() -> None:
    message = await create(system="Be brief.", metadata={"user_id": "u"}, extra_body={"temperature": 0.5, "top_k": 5})
    assert (message.type, message.role, message.model, message.stop_reason) == (
        *("message", "assistant", "starter@1", "end_turn"),
    )
    assert [(block.type, block.text) for block in message.content] == [("text", "say hi to all")]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (4, 4)
    assert message._request_id.startswith("req_")


async def test_what_ends_a_message() -> None:
    stopped = await create(stop_sequences=["to", "x"])
    assert (stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence) == ("say hi", "stop_sequence", "to")
    cut = await create(max_tokens=2)
    assert (cut.content[0].text, cut.stop_reason, cut.stop_sequence) == ("say hi", "max_tokens", None)


async def test_blocks_of_text_and_thoughts() -> None:
    blocks = [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "two"}]
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answer = {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]}
    message = await create(system=blocks, messages=[{"role": "user", "content": blocks}, answer, *HI])
    assert message.content[0].text == "say hi to all"


async def test_a_stream() -> None:
    async with client().messages.stream(**BODY | {"stop_sequences": ["all"]}) as stream:
        texts = [text async for text in stream.text_stream]
        message = await stream.get_final_message()
    assert texts == ["say", " hi", " to"]
    assert (message.content[0].text, message.stop_reason, message.stop_sequence) == (
        *("say hi to", "stop_sequence", "all"),
    )
    assert (message.usage.input_tokens, message.usage.output_tokens) == (4, 3)
    events = [event.type async for event in await create(stream=True)]
    assert events == [
        *("message_start", "content_block_start", *["content_block_delta"] * 4, "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


async def test_tools_are_called_and_answered() -> None:
    message = await create(tools=TOOLS)
    assert message.stop_reason == "tool_use"
    assert [(block.name, block.input) for block in message.content] == [
        ("weather", {"said": "say hi to all"}),
        ("time", {"said": "say hi to all"}),
    ]
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"} for block in message.content]
    answer, reply = {"role": "assistant", "content": message.content}, {"role": "user", "content": results}
    after = await create(messages=[*HI, answer, reply], tools=TOOLS)
    assert (after.content[0].text, after.stop_reason) == ("sunny", "end_turn")


async def test_tools_in_a_stream() -> None:
    async with client().messages.stream(**BODY | {"tools": TOOLS}) as stream:
        events = [event.type async for event in stream]
        message = await stream.get_final_message()
    assert [(block.name, json.dumps(block.input)) for block in message.content] == [
        ("weather", '{"said": "say hi to all"}'),
        ("time", '{"said": "say hi to all"}'),
    ]
    assert (message.stop_reason, events.count("input_json")) == ("tool_use", 2)


@pytest.mark.parametrize("kind", ["any", "tool", "none"])
async def test_what_must_be_called(kind: str) -> None:
    choice = {"type": kind} | ({"name": "time"} if kind == "tool" else {})
    message = await create(tools=TOOLS, tool_choice=choice)
    assert [block.type for block in message.content] == {
        "any": ["tool_use", "tool_use"],
        "tool": ["tool_use"],
        "none": ["text"],
    }[kind]


async def test_tokens_are_counted() -> None:
    counted = await client().messages.count_tokens(model="starter", messages=HI, system="Be brief.", tools=TOOLS)
    assert counted.input_tokens == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_errors(stream: bool) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        await create(model="nobody", stream=stream)
    assert unknown.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        await create(extra_body={"temperature": 3}, stream=stream)
    with pytest.raises(anthropic.BadRequestError, match="take text only, no image"):
        image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
        await create(messages=[{"role": "user", "content": [image]}], stream=stream)
    with pytest.raises(anthropic.BadRequestError, match="Anthropic's are not here"):
        await create(tools=[{"type": "web_search_20250305", "name": "web_search"}], stream=stream)
    with pytest.raises(anthropic.BadRequestError, match="must end with the user"):
        await create(messages=[*HI, {"role": "assistant", "content": "It"}], stream=stream)
    with pytest.raises(anthropic.AuthenticationError):
        await client(api_key="rk_wrong").messages.create(**BODY, stream=stream)
    with pytest.raises(anthropic.RateLimitError) as limited:
        await create(model="starter@3", stream=stream)
    assert limited.value.response.headers["retry-after"] == "3"


async def test_a_stream_that_breaks_is_an_error() -> None:
    with pytest.raises(anthropic.APIStatusError, match="broke the answer off"):
        async for _ in await create(model="starter@2", stream=True):
            pass


async def test_the_key_as_curl_sends_it() -> None:
    curl = client(api_key=None, auth_token=None, default_headers={"x-api-key": KEY, "authorization": anthropic.omit})
    assert (await curl.messages.create(**BODY)).content[0].text == "say hi to all"
