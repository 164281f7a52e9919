"""Parameters of /v1: which are read, ignored or refused by name."""

import json

import pytest
from openai.types import completion_create_params as text_create_params
from openai.types.chat import completion_create_params
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_policies import TextPrompt, no_room
from ratchet_sessions.doors import responses_requests
from ratchet_sessions.doors.openai_requests import IGNORED, NEUTRAL, ChatRequest, TextRequest
from ratchet_sessions.doors.responses_requests import ResponsesRequest

from ..world import World
from .test_openai import HI, chat
from .test_openai_tools import CALL, WEATHER


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "tools": []}, "tools"),
        ({"prompt": [1, 2], "suffix": "b"}, "suffix"),
        ({"prompt": "a", "suffix": "b", "echo": True}, "echo"),
        ({"prompt": "a", "suffix": "\ud800"}, "suffix"),
        ({"prompt": "a", "min_p": 1.5}, "min_p"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "stop": ["b"] * 65}, "stop"),
        ({"prompt": "a", "logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
    ],
)
async def test_says_which_parameter_of_a_text_is_wrong(http, body, param) -> None:
    reply = await http.post("/v1/completions", content=json.dumps({"model": "starter"} | body))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith(param)


async def test_a_gap_is_filled_between_prompt_and_suffix(world: World, http) -> None:
    body = {"model": "starter", "prompt": ["def f(x):", "def g(x):"], "suffix": "return y", "min_p": 0.1}
    assert (await http.post("/v1/completions", json=body)).status_code == 200
    assert world.engine.prompts == [TextPrompt("def f(x):", "return y"), TextPrompt("def g(x):", "return y")]
    assert world.engine.samplings[-1].min_p == 0.1
    await http.post("/v1/completions", json=body | {"suffix": "", "min_p": 0, "prompt": "a"})
    assert (world.engine.prompts[-1], world.engine.samplings[-1].min_p) == (TextPrompt("a"), None)


async def test_a_model_that_fills_no_gaps_is_refused_by_the_parameters_name(world: World, http) -> None:
    def refuse(name: str) -> None:
        raise InvalidArgument("this model fills no gaps", [FieldViolation("prompt.suffix", "this model fills no gaps")])

    world.engine.before_answer = refuse
    reply = await http.post("/v1/completions", json={"model": "starter", "prompt": "a", "suffix": "b"})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["message"]) == (400, "suffix", "this model fills no gaps")


async def test_max_tokens_that_find_no_room_have_openais_code(world: World, http) -> None:
    def refuse(name: str) -> None:
        said = no_room(10, 100_000, 8192)
        raise InvalidArgument(said, [FieldViolation("sampling.max_tokens", said)])

    world.engine.before_answer = refuse
    for body in ({"max_tokens": 100_000}, {"max_completion_tokens": 100_000, "stream": True}):
        reply = await chat(http, **body)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "max_tokens")
        assert "maximum context length is 8192 tokens, and 100010 are requested" in error["message"]
    world.engine.before_answer = lambda name: None
    await chat(http, max_tokens=5)
    await http.post("/v1/completions", json={"model": "starter", "prompt": "a", "max_tokens": 5})
    await http.post("/generate", json={"model": "starter", "prompt": "a", "max_tokens": 5})
    assert [made.must_fit for made in world.engine.samplings] == [True] * 3


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
async def test_a_part_that_is_no_text_is_refused_in_one_sentence(http, kind: str) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": kind, kind: {"url": "https://example.com/a.png"}}]
    reply = await chat(http, messages=[{"role": "user", "content": parts}])
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages.0.content.1")
    assert reply.json()["error"]["message"] == f"messages.0.content.1: the models here take text only, no {kind}"


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
        "reasoning_effort": "high",
        "safety_identifier": "u",
        "service_tier": "flex",
        "verbosity": "low",
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
    known = {*ResponsesRequest.model_fields, *responses_requests.IGNORED, *responses_requests.NEUTRAL}
    assert ResponseCreateParamsBase.__annotations__.keys() - known == set()


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
