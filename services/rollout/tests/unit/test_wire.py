import asyncio

from ratchet_policies import Completion, FinishReason, Sampling, TokenCandidate, TokenPrompt
from rollout_service.adapters.vllm import wire
from rollout_service.domain.generation import GenerationRequest


class Pipe:
    """What is written to it can be read."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()

    def write(self, data: bytes) -> None:
        self.reader.feed_data(data)

    async def drain(self) -> None: ...


async def test_what_a_call_asks_for_crosses() -> None:
    sampling = Sampling(top_logprobs=2, logit_bias={7: -100.0}, json_schema="{}", presence_penalty=0.5)
    call = wire.generate_call(GenerationRequest(TokenPrompt((1, 2)), sampling), stream=True)
    pipe = Pipe()
    await wire.send(pipe, call)
    assert await wire.receive_call(pipe.reader) == call


async def test_the_candidates_of_a_completion_cross() -> None:
    places = ((TokenCandidate(5, "a", -0.5), TokenCandidate(6, "b", -1.5)),)
    output = wire.Output((Completion(0, "a", FinishReason.STOP, (5,), (), places),), (1, 2), last=True)
    pipe = Pipe()
    await wire.send(pipe, output)
    assert await wire.receive_reply(pipe.reader) == output
