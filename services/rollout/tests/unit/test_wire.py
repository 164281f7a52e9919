import asyncio

import pytest

from ratchet_policies import (
    Begun,
    ChatPrompt,
    Completion,
    Echo,
    FinishReason,
    Prompt,
    Sampling,
    TokenCandidate,
    TokenPrompt,
    Tool,
    Tools,
)
from ratchet_problems import Message, ToolCall
from rollout_service.adapters.engines import wire
from rollout_service.domain.generation import GenerationRequest


class Pipe:
    """What is written to it can be read."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()

    def write(self, data: bytes) -> None:
        self.reader.feed_data(data)

    async def drain(self) -> None: ...


CHAT = ChatPrompt(
    (Message("assistant", "", (ToolCall("run", "{}", "call_1"),)), Message("tool", "3", tool_call_id="call_1")),
    Tools((Tool("run", "It runs.", "{}", True),), required=True),
    begun=Begun((1, 2, 3), 1),
)


@pytest.mark.parametrize("prompt", [TokenPrompt((1, 2)), CHAT])
async def test_what_a_call_asks_for_crosses(prompt: Prompt) -> None:
    sampling = Sampling(top_logprobs=2, logit_bias={7: -100.0}, json_schema="{}", presence_penalty=0.5)
    call = wire.generate_call(GenerationRequest(prompt, sampling), stream=True)
    pipe = Pipe()
    await wire.send(pipe, call)
    crossed = await wire.receive_call(pipe.reader)
    assert crossed == call
    assert wire.prompt_of(crossed) == prompt


async def test_the_candidates_of_a_completion_cross() -> None:
    places = ((TokenCandidate(5, "a", -0.5), TokenCandidate(6, "b", -1.5)),)
    made = Completion(0, "a", FinishReason.STOP, (5,), (), places, (ToolCall("run", "{}", "call_1"),))
    output = wire.Output((made,), (1, 2), last=True, echo=Echo("ab", places))
    pipe = Pipe()
    await wire.send(pipe, output)
    assert await wire.receive_reply(pipe.reader) == output
