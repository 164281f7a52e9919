"""Tools of /v1: which are called, and how calls are answered."""

import json

import pytest

from ratchet_policies import Tool, Tools
from ratchet_problems import Message, ToolCall

from ..world import World
from .test_openai import HI, chat

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}, "strict": True},
}


CALL = {"id": "call_7", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


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
