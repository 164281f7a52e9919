"""A program by Anthropic's client: an answer that calls a tool, its result, and more, whole or as a stream."""

import os
from typing import Any

import anthropic
import pytest

TOOLS = [{"name": "run", "description": "It.", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_episode(stream: bool) -> None:
    client = anthropic.AsyncAnthropic(
        base_url=os.environ["CLIENT_URL"], api_key=os.environ["CLIENT_KEY"], max_retries=0
    )
    chat: list[Any] = [{"role": "user", "content": f"Go, {stream}."}]
    for _ in range(4):
        body: Any = {"model": "m", "max_tokens": 64, "messages": chat, "tools": TOOLS, "system": "日本語 👩‍💻"}
        if stream:
            async with client.messages.stream(**body) as pieces:
                made = await pieces.get_final_message()
        else:
            made = await client.messages.create(**body)
        chat.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in made.content]})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "3"}
            for block in made.content
            if block.type == "tool_use"
        ]
        chat.append({"role": "user", "content": results or "more"})
