"""What LiteLLM's client sends is taken, and what it reads is there."""

import json
import os
from typing import Any

import litellm
import pytest
from pydantic import BaseModel

OPTIONS = {"api_base": os.environ["CLIENT_URL"], "api_key": os.environ["CLIENT_KEY"], "max_retries": 0}
HI = [{"role": "user", "content": "say hi to all"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "time")]


async def chat(**body: Any) -> Any:
    return await litellm.acompletion(**{"model": "openai/starter", "messages": HI} | OPTIONS | body)


async def text(**body: Any) -> Any:
    return await litellm.atext_completion(**{"model": "text-completion-openai/starter"} | OPTIONS | body)


async def test_chat() -> None:
    answer = await chat(n=2, stop=["x"], seed=1, logprobs=True, top_logprobs=2, max_tokens=9, user="me")
    assert [choice.message.content for choice in answer.choices] == ["say hi to all"] * 2
    assert [one.token for one in answer.choices[0].logprobs.content] == ["say", "hi", "to", "all"]
    assert (answer.choices[0].finish_reason, answer.usage.total_tokens) == ("stop", 12)


async def test_a_chat_in_pieces_with_its_usage() -> None:
    pieces = [piece async for piece in await chat(stream=True, stream_options={"include_usage": True})]
    assert "".join(choice.delta.content or "" for piece in pieces for choice in piece.choices) == "say hi to all"
    assert litellm.stream_chunk_builder(pieces).usage.total_tokens == 8


async def test_tools_are_called_and_answered() -> None:
    choice = (await chat(tools=TOOLS)).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in choice.message.tool_calls] == ["weather", "time"]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in choice.message.tool_calls]
    for said in (choice.message, choice.message.model_dump()):
        after = await chat(messages=[*HI, said, *results], tools=TOOLS)
        assert after.choices[0].message.content == "sunny"


async def test_tools_in_pieces() -> None:
    pieces = [piece async for piece in await chat(tools=TOOLS, stream=True)]
    (choice,) = litellm.stream_chunk_builder(pieces).choices
    assert [call.function.name for call in choice.message.tool_calls] == ["weather", "time"]
    assert json.loads(choice.message.tool_calls[1].function.arguments) == {"said": "say hi to all"}


async def test_an_answer_of_a_type() -> None:
    class Said(BaseModel):
        said: str

    answer = await chat(messages=[{"role": "user", "content": '{"said":"hi"}'}], response_format=Said)
    assert Said.model_validate_json(answer.choices[0].message.content) == Said(said="hi")


async def test_texts() -> None:
    answer = await text(prompt=["say hi", "go on"], echo=True)
    assert [choice.text for choice in answer.choices] == ["say hisay hi", "go ongo on"]
    scored = await text(prompt="say hi", echo=True, logprobs=1, max_tokens=0)
    assert scored.choices[0].logprobs.token_logprobs == [None, -0.5]
    pieces = [piece async for piece in await text(prompt="say hi", stream=True)]
    assert "".join(piece.choices[0].text or "" for piece in pieces) == "say hi"


async def test_errors() -> None:
    with pytest.raises(litellm.NotFoundError):
        await chat(model="openai/nobody")
    with pytest.raises(litellm.AuthenticationError):
        await chat(api_key="rk_wrong")
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        await chat(temperature=3)
    with pytest.raises(litellm.RateLimitError) as limited:
        await chat(model="openai/starter@3")
    assert limited.value.litellm_response_headers["retry-after"] == "3"
