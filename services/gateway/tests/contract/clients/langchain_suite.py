"""What LangChain's client, langchain-openai, sends is taken, and what it reads is there."""

import os
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

URL, KEY = os.environ["CLIENT_URL"], os.environ["CLIENT_KEY"]


class Said(BaseModel):
    """What was said."""

    said: str


@tool
def weather(said: str) -> str:
    """The weather of a city."""
    return "sunny"


def model(**options: Any) -> ChatOpenAI:
    return ChatOpenAI(**{"model": "starter", "base_url": URL, "api_key": KEY, "max_retries": 0} | options)


async def test_chat() -> None:
    answer = await model(temperature=0.5, seed=1, stop=["x"], max_tokens=9, n=1).ainvoke("say hi to all")
    assert answer.content == "say hi to all"
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (4, 4)
    assert (answer.response_metadata["model_name"], answer.response_metadata["finish_reason"]) == ("starter@1", "stop")


async def test_several_answers() -> None:
    result = await model(n=2, temperature=1).agenerate([[HumanMessage("say hi")], [HumanMessage("go")]])
    assert [[one.text for one in some] for some in result.generations] == [["say hi"] * 2, ["go"] * 2]


async def test_a_chat_in_pieces_with_its_usage() -> None:
    pieces = [piece async for piece in model(stream_usage=True).astream("say hi to all")]
    whole = sum(pieces[1:], pieces[0])
    assert (whole.content, whole.usage_metadata["total_tokens"]) == ("say hi to all", 8)


async def test_logprobs() -> None:
    answer = await model(logprobs=True, top_logprobs=2).ainvoke("say hi")
    (first, _) = answer.response_metadata["logprobs"]["content"]
    assert (first["token"], [one["logprob"] for one in first["top_logprobs"]]) == ("say", [-1.5, -2.5])


async def test_tools_are_called_and_answered() -> None:
    bound = model().bind_tools([weather])
    asked = HumanMessage("say hi to all")
    answer = await bound.ainvoke([asked])
    assert answer.tool_calls == [
        {"name": "weather", "args": {"said": "say hi to all"}, "id": "call_0", "type": "tool_call"}
    ]
    result = await weather.ainvoke(answer.tool_calls[0])
    assert isinstance(result, ToolMessage)
    assert (await bound.ainvoke([asked, answer, result])).content == "sunny"


async def test_tools_in_pieces() -> None:
    pieces = [piece async for piece in model().bind_tools([weather]).astream("say hi to all")]
    whole = sum(pieces[1:], pieces[0])
    assert isinstance(whole, AIMessage)
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("weather", {"said": "say hi to all"})]


@pytest.mark.parametrize("choice", ["any", "weather", "none"])
async def test_what_must_be_called(choice: str) -> None:
    answer = await model().bind_tools([weather], tool_choice=choice, parallel_tool_calls=False).ainvoke("say hi")
    assert len(answer.tool_calls) == (choice != "none")


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
async def test_an_answer_of_a_type(method: str) -> None:
    text = "hi" if method == "function_calling" else '{"said":"hi"}'
    assert await model().with_structured_output(Said, method=method).ainvoke(text) == Said(said="hi")


async def test_texts() -> None:
    llm = OpenAI(model="starter", base_url=URL, api_key=KEY, max_retries=0)
    assert [some[0].text for some in (await llm.agenerate(["say hi", "go on"])).generations] == ["say hi", "go on"]
    assert "".join([piece async for piece in llm.astream("say hi")]) == "say hi"


async def test_errors() -> None:
    with pytest.raises(openai.NotFoundError):
        await model(model="nobody").ainvoke("a")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await model(temperature=3).ainvoke("a")
    with pytest.raises(openai.AuthenticationError):
        await model(api_key="rk_wrong").ainvoke("a")
    with pytest.raises(openai.RateLimitError) as limited:
        await model(model="starter@3").ainvoke("a")
    assert limited.value.response.headers["retry-after"] == "3"
