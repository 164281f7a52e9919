"""RolloutEngine over gRPC, against a rollout-service in memory."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2

from ratchet.common.v1 import failure_pb2, generation_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit.client import channel
from ratchet_kit.errors import FailedPrecondition, Failure, NotFound, ResourceExhausted
from ratchet_policies import (
    ChatPrompt,
    FinishReason,
    Policy,
    PolicySpec,
    PolicyState,
    Sampling,
    TextPrompt,
    TokenPrompt,
)
from ratchet_policies.rollout import RolloutEngine
from ratchet_problems import Message
from ratchet_testing.services import serving

WEIGHTS = "sha256:mine"
CHAT = ChatPrompt((Message("system", "Be brief."), Message("user", "Write f.")))


class Rollout(rollout_pb2_grpc.RolloutServiceServicer):
    def __init__(self) -> None:
        self.policies: dict[str, pb.Policy] = {}
        self.requests: list[Any] = []
        self.answers_from = WEIGHTS

    async def LoadPolicy(self, request: pb.LoadPolicyRequest, context: Any) -> pb.LoadPolicyResponse:
        self.requests.append(request)
        if len(self.policies) == 3:
            raise ResourceExhausted("3 policies are loaded")
        self.policies[request.name] = pb.Policy(name=request.name, state=pb.Policy.STATE_LOADING)
        return pb.LoadPolicyResponse(policy=self.policies[request.name])

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.GetPolicyResponse:
        if request.name not in self.policies:
            raise NotFound(f"policy {request.name} is not loaded")
        return pb.GetPolicyResponse(policy=self.policies[request.name])

    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Any) -> pb.ListPoliciesResponse:
        names = sorted(self.policies)
        start = int(request.page_token or 0)
        more = str(start + 1) if start + 1 < len(names) else ""
        return pb.ListPoliciesResponse(policies=[self.policies[names[start]]] if names else [], next_page_token=more)

    async def UnloadPolicy(self, request: pb.UnloadPolicyRequest, context: Any) -> pb.UnloadPolicyResponse:
        if self.policies.pop(request.name, None) is None:
            raise NotFound(f"policy {request.name} is not loaded")
        return pb.UnloadPolicyResponse()

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        self.requests.append(request)
        completion = generation_pb2.Completion(
            text="def f", token_ids=[5, 6], log_probs=[-0.5, -0.25], finish_reason=generation_pb2.FINISH_REASON_LENGTH
        )
        return pb.GenerateResponse(completions=[completion], policy_id=self.answers_from, prompt_token_ids=[1, 2, 3])

    async def StreamGenerate(self, request: pb.StreamGenerateRequest, context: Any) -> Any:
        yield pb.StreamGenerateResponse(delta=generation_pb2.Completion(text="def"), policy_id=WEIGHTS, prompt_tokens=3)
        yield pb.StreamGenerateResponse(
            delta=generation_pb2.Completion(text=" f", finish_reason=generation_pb2.FINISH_REASON_STOP),
            policy_id=WEIGHTS,
        )


@pytest.fixture
def rollout() -> Rollout:
    return Rollout()


@pytest.fixture
async def engine(rollout: Rollout) -> AsyncIterator[RolloutEngine]:
    def add(server: grpc.aio.Server) -> list[str]:
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(rollout, server)
        return ["ratchet.rollout.v1.RolloutService"]

    async with serving(add) as target, channel(target) as door:
        yield RolloutEngine(door)


async def test_policies_come_and_go(engine: RolloutEngine, rollout: Rollout) -> None:
    for number in (1, 2, 3):
        await engine.load(PolicySpec(f"starter@{number}", "/models/starter", WEIGHTS, "float32", 160))
    rollout.policies["starter@2"].state = pb.Policy.STATE_READY
    rollout.policies["starter@2"].policy_id = WEIGHTS
    rollout.policies["starter@2"].weight_updates = 4
    assert await engine.get("starter@2") == Policy("starter@2", PolicyState.READY, WEIGHTS, None, 4)
    assert [policy.name for policy in await engine.all()] == ["starter@1", "starter@2", "starter@3"]
    with pytest.raises(ResourceExhausted):
        await engine.load(PolicySpec("starter@4", "/models/starter"))
    await engine.unload("starter@2")
    with pytest.raises(NotFound):
        await engine.get("starter@2")
    first = rollout.requests[0]
    assert (first.source_uri, first.expected_policy_id) == ("/models/starter", WEIGHTS)
    assert (first.options.dtype, first.options.max_model_len) == (pb.DTYPE_FLOAT32, 160)
    assert len({request.request_id for request in rollout.requests}) == 4, "each load is another request"


async def test_a_failed_policy_says_why(engine: RolloutEngine, rollout: Rollout) -> None:
    failure = failure_pb2.Failure(code=code_pb2.FAILED_PRECONDITION, message="the weights have other shapes")
    rollout.policies["starter@1"] = pb.Policy(name="starter@1", state=pb.Policy.STATE_FAILED, failure=failure)
    failed = Failure("FAILED_PRECONDITION", "the weights have other shapes")
    assert await engine.get("starter@1") == Policy("starter@1", PolicyState.FAILED, failure=failed)


async def test_no_policies_are_no_error(engine: RolloutEngine) -> None:
    assert await engine.all() == []


async def test_prompts_and_samplings_cross(engine: RolloutEngine, rollout: Rollout) -> None:
    for prompt in (CHAT, TextPrompt("def f"), TokenPrompt([1, 2])):
        await engine.generate("starter@1", WEIGHTS, prompt, Sampling(temperature=0.0, max_tokens=64, seed=7, n=2))
    chat, text, tokens = rollout.requests
    assert [(message.role, [part.text for part in message.content]) for message in chat.prompt.chat.messages] == [
        ("system", ["Be brief."]),
        ("user", ["Write f."]),
    ]
    assert (text.prompt.text, list(tokens.prompt.tokens.ids)) == ("def f", [1, 2])
    sampling = chat.sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.seed, sampling.n) == (0.0, 64, 7, 2)
    assert sampling.HasField("temperature")
    assert not sampling.HasField("top_p")


async def test_completions_come_back_whole(engine: RolloutEngine) -> None:
    generation = await engine.generate("starter@1", WEIGHTS, CHAT, Sampling())
    [completion] = generation.completions
    assert (generation.policy_id, generation.prompt_tokens) == (WEIGHTS, 3)
    assert (completion.text, completion.token_ids, completion.log_probs) == ("def f", (5, 6), (-0.5, -0.25))
    assert completion.finish_reason is FinishReason.LENGTH


async def test_an_answer_from_other_weights_is_refused(engine: RolloutEngine, rollout: Rollout) -> None:
    rollout.answers_from = "sha256:other"
    with pytest.raises(FailedPrecondition, match="answered from sha256:other"):
        await engine.generate("starter@1", WEIGHTS, CHAT, Sampling())


async def test_a_stream_comes_in_pieces(engine: RolloutEngine) -> None:
    deltas = [delta async for delta in engine.stream("starter@1", WEIGHTS, CHAT, Sampling())]
    assert "".join(delta.completion.text for delta in deltas) == "def f"
    assert [delta.prompt_tokens for delta in deltas] == [3, 0]
    assert deltas[-1].completion.finish_reason is FinishReason.STOP
