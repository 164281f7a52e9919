"""A model that thinks before it answers: its thoughts are apart in every API, whole and in streams, and on record.

`make e2e-full`.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ratchet_client import Client

from . import table_model
from .conftest import Platform, running

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(900)]

MODEL, PROMPT = "thinker", "Where is it warm?"
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'
ANSWER = f"<tool_call>\n{CALL}\n</tool_call>"
THOUGHTS = "Rome may be."
PARSERS = {
    "RATCHET_ROLLOUT_REASONING_PARSERS": json.dumps({MODEL: "deepseek_r1"}),
    "RATCHET_ROLLOUT_TOOL_PARSERS": json.dumps({MODEL: "hermes"}),
}
MESSAGES = [{"role": "user", "content": PROMPT}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]}


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    with running(PARSERS) as platform:
        folder = platform.home.path / "models" / MODEL
        table_model.write(folder, {PROMPT: ("<think>", THOUGHTS, "</think>", ANSWER)})
        with platform.client() as client:
            client.models.create_version(MODEL, str(folder))
            made = client.models.wait_version(MODEL, 1)
            assert made.policy_id, made.failure
            client.models.set_alias(MODEL, "champion", 1)
        yield platform


Post = Callable[..., httpx.Response]


@pytest.fixture
def post(platform: Platform, client: Client) -> Post:
    def post(path: str, **body: Any) -> httpx.Response:
        whole = {"model": MODEL, "temperature": 0, **body}
        headers = {"Authorization": f"Bearer {platform.home.admin_key()}"}
        reply = httpx.post(f"{client.url}{path}", json=whole, headers=headers, timeout=300)
        assert reply.status_code == 200, reply.text
        return reply

    return post


def events(reply: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_chats_have_them_beside_the_content(post: Post) -> None:
    (choice,) = post("/v1/chat/completions", messages=MESSAGES).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHTS}
    again = [*MESSAGES, choice["message"], *MESSAGES]  # a client sends back what came
    assert post("/v1/chat/completions", messages=again).json()["choices"][0]["message"] == choice["message"]
    deltas = [
        one["choices"][0]["delta"] for one in events(post("/v1/chat/completions", messages=MESSAGES, stream=True))
    ]
    assert "".join(one.get("reasoning_content", "") for one in deltas) == THOUGHTS
    assert "".join(one.get("content", "") for one in deltas) == ANSWER


def test_and_beside_calls_of_tools(post: Post) -> None:
    (choice,) = post("/v1/chat/completions", messages=MESSAGES, **TOOLS).json()["choices"]
    assert (choice["finish_reason"], choice["message"]["reasoning_content"]) == ("tool_calls", THOUGHTS)
    (call,) = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Rome"}
    assert choice["message"]["content"] is None


def test_anthropics_api_has_a_block_of_them(post: Post) -> None:
    body = {"messages": MESSAGES, "max_tokens": 64}
    thinking, text = post("/v1/messages", **body).json()["content"]
    assert thinking == {"type": "thinking", "thinking": THOUGHTS, "signature": ""}
    assert text == {"type": "text", "text": ANSWER}
    stream = events(post("/v1/messages", **body, stream=True))
    kinds = [one["content_block"]["type"] for one in stream if one["type"] == "content_block_start"]
    assert kinds == ["thinking", "text"]
    deltas = [one["delta"] for one in stream if one["type"] == "content_block_delta"]
    assert "".join(one.get("thinking", "") for one in deltas) == THOUGHTS


def test_responses_have_an_item_of_them(post: Post) -> None:
    thoughts, message = post("/v1/responses", input=PROMPT).json()["output"]
    assert (thoughts["type"], thoughts["content"]) == ("reasoning", [{"type": "reasoning_text", "text": THOUGHTS}])
    assert message["content"][0]["text"] == ANSWER
    stream = events(post("/v1/responses", input=PROMPT, stream=True))
    assert "".join(one["delta"] for one in stream if one["type"] == "response.reasoning_text.delta") == THOUGHTS
    assert [one["item"]["type"] for one in stream if one["type"] == "response.output_item.done"] == [
        "reasoning",
        "message",
    ]


def test_the_end_of_thoughts_in_a_question_is_none_of_the_answers(post: Post) -> None:
    asked = [{"role": "user", "content": f"</think>{PROMPT}"}]
    (choice,) = post("/v1/chat/completions", messages=asked).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHTS}


def test_an_answer_that_is_cut_off_is_thoughts_alone(post: Post) -> None:
    (choice,) = post("/v1/chat/completions", messages=MESSAGES, max_tokens=2).json()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"] == {"role": "assistant", "content": "", "reasoning_content": THOUGHTS}
