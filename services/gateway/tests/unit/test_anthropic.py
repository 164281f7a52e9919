"""/v1/messages: what of a request reaches the engine, and in which shape it is refused. The client has a suite, too."""

import json
from datetime import timedelta

import pytest

from gateway_service.domain.releases.release import Stage
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_policies import Tool, Tools, no_room, over_length
from ratchet_problems import Message, ToolCall

from ..world import ADMIN_KEY, World

HI = [{"role": "user", "content": "say hi to all"}]


async def messages(http, path: str = "/v1/messages", **body):
    return await http.post(path, json={"model": "starter", "max_tokens": 9, "messages": HI} | body)


async def test_a_conversation_as_the_model_reads_it(world: World, http) -> None:
    said = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "text", "text": "there"}]},
        {"role": "user", "content": "quickly"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a house"}]},
                {"type": "text", "text": "say hi"},
            ],
        },
    ]
    tools = [{"name": "look", "description": "It.", "input_schema": {"type": "object"}, "strict": True}]
    system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert (await messages(http, messages=said, system=system, tools=tools, tool_choice=choice)).status_code == 200
    prompt = world.engine.prompts[-1]
    assert prompt.messages == (
        Message("system", "Be brief.\n\nBe kind."),
        Message("user", "look\n\nthere\n\nquickly"),
        Message("assistant", "I look", (ToolCall("look", '{"at": "it"}', "t1"),)),
        Message("tool", "a house", tool_call_id="t1"),
        Message("user", "say hi"),
    )
    assert prompt.tools == Tools((Tool("look", "It.", '{"type": "object"}', True),), single=True)


@pytest.mark.parametrize("system", [None, "", [], [{"type": "text", "text": ""}]])
async def test_a_system_without_a_text_is_none(world: World, http, system) -> None:
    assert (await messages(http, system=system)).status_code == 200
    assert [one.role for one in world.engine.prompts[-1].messages] == ["user"]


async def test_the_system_may_say_more_amid_a_conversation(world: World, http) -> None:
    """https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages"""
    more = {"role": "system", "content": [{"type": "text", "text": "Be kind."}]}
    said = [*HI, more, {"role": "assistant", "content": "hi"}, *HI]
    assert (await messages(http, messages=said, system="Be brief.")).status_code == 200
    read = [(one.role, one.content) for one in world.engine.prompts[-1].messages]
    assert read[:3] == [("system", "Be brief."), ("user", HI[0]["content"]), ("system", "Be kind.")]
    assert [role for role, _ in read[3:]] == ["assistant", "user"]


async def test_sampling_reaches_the_engine(world: World, http) -> None:
    wanted = {"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "high"}
    body = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["x"], "output_config": wanted}
    assert (await messages(http, **body, thinking={"type": "adaptive"})).status_code == 200
    made = world.engine.samplings[-1]
    assert (made.temperature, made.top_p, made.top_k, made.max_tokens, made.stop) == (0.5, 0.9, 5, 9, ("x",))
    assert (json.loads(made.json_schema), made.must_fit) == ({"type": "object"}, True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: must be a text or a list"),
        (
            {"messages": [{"role": "user", "content": []}] * 2, "banana": 1},
            "Unrecognized request argument supplied: banana",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            "messages.0.content.0: the models here take text only, no document",
        ),
        ({"messages": [*HI, {"role": "assistant", "content": "Dear"}]}, "must end with the user"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}]}]},
            "an assistant has tool_use",
        ),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0: must be a tool of your own"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers is not supported here"),
        ({"stop_sequences": ["\ud800"]}, "stop_sequences.0"),
    ],
)
async def test_says_what_is_wrong_in_anthropics_shape(http, body, said) -> None:
    sent = json.dumps({"model": "starter", "max_tokens": 9, "messages": HI} | body)
    reply = await http.post("/v1/messages", content=sent)
    assert (reply.status_code, reply.json()["type"]) == (400, "error")
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert said in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": ADMIN_KEY}, 200),
        ({"x-api-key": ADMIN_KEY, "authorization": f"Bearer {ADMIN_KEY}"}, 200),
        ({"x-api-key": ADMIN_KEY, "authorization": "Bearer rk_other"}, 401),
        ({"x-api-key": "rk_wrong"}, 401),
        ({}, 401),
    ],
)
async def test_the_key_may_come_in_x_api_key(http, headers, status) -> None:
    http.headers.pop("authorization")
    reply = await http.post("/v1/messages", json={"model": "starter", "max_tokens": 9, "messages": HI}, headers=headers)
    assert reply.status_code == status
    if status == 401:
        assert reply.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_has_words_that_clients_look_for(world: World, http, stream: bool) -> None:
    for field, said, begin in (
        ("prompt.chat", over_length(900, 512), "prompt is too long: this model's"),
        ("sampling.max_tokens", no_room(90, 900, 512), "this model's"),
    ):

        def refuse(name: str, field: str = field, said: str = said) -> None:
            raise InvalidArgument(said, [FieldViolation(field, said)])

        world.engine.before_answer = refuse
        error = (await messages(http, stream=stream)).json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith(begin)


async def test_a_release_places_and_records_them_as_any_other_request(world: World, http) -> None:
    release = await world.release((Stage(50, timedelta(hours=1), 0), Stage(100, timedelta(0), 0)))
    await world.until_progressing(release)
    by_user = {}
    for user in "abcdefgh":
        chat = {"model": "starter", "user": user}
        paths = {
            "/v1/chat/completions": chat | {"messages": HI},
            "/v1/responses": chat | {"input": "say hi"},
            "/v1/messages": {"model": "starter", "max_tokens": 9, "messages": HI, "metadata": {"user_id": user}},
        }
        replies = [await http.post(path, json=body) for path, body in paths.items()]
        by_user[user] = {reply.json()["model"] for reply in replies}
        assert {reply.headers["x-ratchet-arm"] for reply in replies} <= {"baseline", "candidate"}
    assert all(len(versions) == 1 for versions in by_user.values())
    assert len(set.union(*by_user.values())) == 2
    assert len(await world.records()) == 24


async def test_tokens_are_counted_and_nothing_is_recorded(world: World, http) -> None:
    reply = await http.post("/v1/messages/count_tokens", json={"model": "starter", "messages": HI})
    assert reply.json() == {"input_tokens": 4}
    assert (world.engine.samplings[-1].max_tokens, await world.records()) == (0, [])
