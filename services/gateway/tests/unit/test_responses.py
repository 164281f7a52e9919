"""/v1/responses: what of a request reaches the engine. OpenAI's own client is in test_openai_client.py."""

import json
from unittest.mock import Mock

import pytest

from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_policies import Tool, Tools, over_length
from ratchet_problems import Message, ToolCall

from ..world import World


async def respond(http, **body):
    return await http.post("/v1/responses", json={"model": "starter", "input": "say hi"} | body)


async def test_a_conversation_as_the_model_reads_it(world: World, http) -> None:
    items = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look "}]},
        {"role": "user", "content": [{"type": "input_text", "text": "th"}, {"type": "input_text", "text": "ere"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}], "id": "msg_1"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "a house"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a tree"}]},
        {"role": "user", "content": "say hi"},
    ]
    tools = [
        {"type": "function", "name": "look", "description": "It.", "parameters": {"type": "object"}, "strict": True}
    ]
    reply = await respond(http, input=items, instructions="Be brief.", tools=tools, parallel_tool_calls=False)
    assert reply.status_code == 200
    prompt = world.engine.prompts[-1]
    assert prompt.messages == (
        Message("system", "Be brief.\n\nBe kind."),
        Message("user", "look \n\nthere"),
        Message("assistant", "I look", (ToolCall("look", "{}", "c1"), ToolCall("look", "{}", "c2"))),
        Message("tool", "a house", tool_call_id="c1"),
        Message("tool", "a tree", tool_call_id="c2"),
        Message("user", "say hi"),
    )
    assert prompt.tools == Tools((Tool("look", "It.", '{"type": "object"}', True),), single=True)


async def test_thoughts_alone_are_an_empty_answer_where_something_goes_on_from_them(world: World, http) -> None:
    thoughts, asked = {"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "user", "content": "say hi"}
    for items, roles in (([asked, thoughts, asked], ["user", "assistant", "user"]), ([asked, thoughts], ["user"])):
        assert (await respond(http, input=items)).status_code == 200
        prompt = world.engine.prompts[-1]
        assert [one.role for one in prompt.messages] == roles
        assert all(one.content == "say hi" for one in prompt.messages if one.role == "user")


async def test_sampling_reaches_the_engine_and_comes_back(world: World, http) -> None:
    form = {"format": {"type": "json_object"}, "verbosity": "low"}
    hints = {"reasoning": {"effort": "high"}, "truncation": "auto", "include": ["reasoning.encrypted_content"]}
    body = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 9, "text": form, "store": False}
    reply = (await respond(http, **body, **hints)).json()
    made = world.engine.samplings[-1]
    assert (made.temperature, made.top_p, made.max_tokens, made.must_fit) == (0.5, 0.9, 9, True)
    assert json.loads(made.json_schema) == {"type": "object"}
    assert (reply["temperature"], reply["max_output_tokens"], reply["text"]["format"]["type"]) == (
        0.5,
        9,
        "json_object",
    )


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"input": []}, "input", "at least 1 item"),
        ({"input": 5}, "input", "must be a text or a list"),
        ({"input": [5]}, "input.0", "must be a message, a function_call"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0", "must be a message, a function_call"),
        ({"input": [{"type": "reasoning"}]}, "input", "must hold a message"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input.0.content.0", "no input_file"),
        ({"input": "\ud800"}, "input", "surrogate"),
        ({"conversation": "conv_1"}, "conversation", "send the whole conversation as input"),
        ({"background": True}, "background", "stream it"),
        ({"include": ["file_search_call.results"]}, "include", "not supported"),
        ({"tool_choice": "required"}, "tool_choice", "tools"),
        ({"tool_choice": {"type": "allowed_tools", "tools": []}}, "tool_choice", ""),
        ({"metadata": {"a": 1}}, "metadata.a", "string"),
        ({"banana": 1}, "banana", "Unrecognized"),
    ],
)
async def test_says_which_parameter_is_wrong(http, body, param, said) -> None:
    reply = await http.post("/v1/responses", content=json.dumps({"model": "starter", "input": "hi"} | body))
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"].startswith(param)
    assert said in error["message"]


async def test_what_is_too_long_is_said_of_its_own_parameter(world: World, http) -> None:
    said = over_length(900, 512)
    for field, param in (("prompt.chat", "input"), ("sampling.max_tokens", "max_output_tokens")):
        refused = InvalidArgument(said, [FieldViolation(field, said)])
        world.engine.before_answer = Mock(side_effect=refused)
        error = (await respond(http)).json()["error"]
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
