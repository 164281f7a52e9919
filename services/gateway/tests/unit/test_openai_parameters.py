"""Parameters of /v1: which are read, ignored or refused by name."""

import json

import pytest
from openai.types import completion_create_params as text_create_params
from openai.types.chat import completion_create_params

from gateway_service.rest.openai_requests import IGNORED, NEUTRAL, ChatRequest, TextRequest

from .test_openai import HI, chat
from .test_openai_tools import CALL, WEATHER


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


async def test_what_changes_no_answer_is_ignored(http) -> None:
    hints = {
        "metadata": {"team": "a"},
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h",
        "safety_identifier": "u",
        "service_tier": "flex",
        "verbosity": "medium",
    }
    parts = [{"type": "text", "text": "say hi to all", "prompt_cache_breakpoint": {"mode": "explicit"}}]
    options = {"include_usage": True, "include_obfuscation": True}
    said = await chat(http, **hints, messages=[{"role": "user", "content": parts}])
    assert (said.status_code, said.json()["choices"][0]["message"]["content"]) == (200, "say hi to all")
    assert (await chat(http, **hints, stream=True, stream_options=options)).status_code == 200


def test_every_parameter_of_the_newest_client_is_known() -> None:
    """Taken, ignored or refused by its name; what a later client adds is for this test."""
    for body, params in (
        (ChatRequest, completion_create_params.CompletionCreateParamsBase),
        (TextRequest, text_create_params.CompletionCreateParamsBase),
    ):
        known = {*body.model_fields, "stream", *IGNORED, *NEUTRAL}
        assert params.__annotations__.keys() - known == set()


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
