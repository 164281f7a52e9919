"""The policy host over gRPC, against a rollout-service that does what a test says."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import pytest

from eval_service.adapters.policies import EnginePolicyHost
from eval_service.domain.evaluation import ResolvedModel
from eval_service.domain.ports import Answer
from ratchet.common.v1 import failure_pb2, generation_pb2, priority_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit.client import channel
from ratchet_kit.errors import (
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
)
from ratchet_kit.ids import new_id
from ratchet_kit.times import duration_to_proto
from ratchet_policies import BrokenOff, ChatPrompt, Sampling
from ratchet_policies.rollout import RolloutEngine
from ratchet_problems import Message
from ratchet_testing.services import serving

pytestmark = pytest.mark.integration

WEIGHTS = "sha256:" + "ab" * 32
SETTINGS = "sha256:" + "cd" * 32
MODEL = ResolvedModel("/models/a", WEIGHTS, SETTINGS)
SAMPLING = Sampling(temperature=0.5, max_tokens=64, seed=1234)
CHAT = ChatPrompt((Message("user", "Write it."),))
READY, LOADING, FAILED = pb.Policy.STATE_READY, pb.Policy.STATE_LOADING, pb.Policy.STATE_FAILED


class Rollout(rollout_pb2_grpc.RolloutServiceServicer):
    def __init__(self) -> None:
        self.policies: dict[str, pb.Policy] = {}
        self.states = [LOADING, READY]
        self.loads: list[pb.LoadPolicyRequest] = []
        self.generated: list[pb.GenerateRequest] = []
        self.answers_from = WEIGHTS
        self.text, self.reasoning = "def solve(): ...", ""
        self.finish_reason = generation_pb2.FINISH_REASON_LENGTH
        self.full = False
        self.refuses: RatchetError | None = None

    def put(self, name: str, **fields: Any) -> None:
        self.policies[name] = pb.Policy(
            name=name,
            **({"state": READY, "policy_id": WEIGHTS, "settings_id": SETTINGS, "has_chat_template": True} | fields),
        )

    async def LoadPolicy(self, request: pb.LoadPolicyRequest, context: Any) -> pb.LoadPolicyResponse:
        self.loads.append(request)
        if self.refuses is not None:
            raise self.refuses
        if request.name not in self.policies:
            if self.full:
                raise ResourceExhausted("1 policies are loaded, as many as this service may hold")
            self.put(request.name, state=LOADING)
        return pb.LoadPolicyResponse(policy=self.policies[request.name])

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.GetPolicyResponse:
        if request.name not in self.policies:
            raise NotFound(f"policy {request.name} is not loaded")
        policy = self.policies[request.name]
        if self.states:
            policy.state = self.states.pop(0)
        return pb.GetPolicyResponse(policy=policy)

    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Any) -> pb.ListPoliciesResponse:
        names = sorted(self.policies)
        start = int(request.page_token or 0)
        more = str(start + 1) if start + 1 < len(names) else ""
        return pb.ListPoliciesResponse(
            policies=[self.policies[name] for name in names[start : start + 1]], next_page_token=more
        )

    async def UnloadPolicy(self, request: pb.UnloadPolicyRequest, context: Any) -> pb.UnloadPolicyResponse:
        if self.policies.pop(request.name, None) is None:
            raise NotFound(f"policy {request.name} is not loaded")
        return pb.UnloadPolicyResponse()

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        self.generated.append(request)
        completion = generation_pb2.Completion(
            text=self.text, token_ids=[1, 2], finish_reason=self.finish_reason, reasoning=self.reasoning
        )
        return pb.GenerateResponse(completions=[completion], policy_id=self.answers_from)


@pytest.fixture
def rollout() -> Rollout:
    return Rollout()


@pytest.fixture
async def host(rollout: Rollout) -> AsyncIterator[EnginePolicyHost]:
    def add(server: grpc.aio.Server) -> list[str]:
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(rollout, server)
        return ["ratchet.rollout.v1.RolloutService"]

    async with serving(add) as target, channel(target) as door:
        yield EnginePolicyHost(RolloutEngine(door), load_timeout=timedelta(seconds=1), poll=timedelta(milliseconds=10))


async def test_it_loads_samples_and_unloads(host: EnginePolicyHost, rollout: Rollout) -> None:
    async with host.open(MODEL, "eval_1") as policy:
        assert (policy.policy_id, policy.settings_id) == (WEIGHTS, SETTINGS)
        assert await policy.complete(CHAT, SAMPLING) == Answer("def solve(): ...", 2, truncated=True)
        assert policy.has_chat_template
        assert list(rollout.policies) == ["eval-eval_1"]
    assert rollout.policies == {}
    [load], [asked] = rollout.loads, rollout.generated
    assert (load.source_uri, load.expected_policy_id) == ("/models/a", WEIGHTS)
    assert (asked.policy, asked.expected_policy_id) == ("eval-eval_1", WEIGHTS)
    assert asked.priority == priority_pb2.PRIORITY_LOW, "whom the policy serves goes first"
    assert [(message.role, message.content[0].text) for message in asked.prompt.chat.messages] == [
        ("user", "Write it.")
    ]
    assert (asked.sampling.temperature, asked.sampling.max_tokens, asked.sampling.seed) == (0.5, 64, 1234)


def use(rollout: Rollout, name: str, seconds: int, tokens: int) -> None:
    usage = pb.EngineUsage(cpu_time=duration_to_proto(timedelta(seconds=seconds)), tokens=tokens)
    rollout.policies[name].usage.CopyFrom(usage)


async def test_a_policy_of_its_own_counts_whole_until_it_is_unloaded(host: EnginePolicyHost, rollout: Rollout) -> None:
    async with host.open(MODEL, "eval_1") as policy:
        await policy.complete(CHAT, SAMPLING)
        use(rollout, "eval-eval_1", 30, 1000)
    share = await policy.look()
    assert (share.cpu_time, share.completion_tokens) == (timedelta(seconds=30), 2)


async def test_one_that_was_left_behind_was_counted_until_then(host: EnginePolicyHost, rollout: Rollout) -> None:
    holder = new_id("eval")
    rollout.put(f"eval-{holder}")
    use(rollout, f"eval-{holder}", 30, 1000)
    async with host.open(MODEL, holder) as policy:
        use(rollout, f"eval-{holder}", 34, 1002)
    assert (await policy.look()).cpu_time == timedelta(seconds=4)


async def test_of_one_that_serves_others_its_part_of_the_tokens_counts(
    host: EnginePolicyHost, rollout: Rollout
) -> None:
    rollout.put("starter@1")
    use(rollout, "starter@1", 1000, 50_000)
    async with host.open(MODEL, "eval_1") as policy:
        await policy.complete(CHAT, SAMPLING)
        use(rollout, "starter@1", 1010, 50_010)
    assert (await policy.look()).cpu_time == timedelta(seconds=2)


@pytest.mark.parametrize(
    ("text", "said"), [("def solve(): ...", "<think>Hm.</think>def solve(): ..."), ("", "<think>Hm.")]
)
async def test_thoughts_are_measured_as_runs_read_them(
    host: EnginePolicyHost, rollout: Rollout, text: str, said: str
) -> None:
    rollout.text, rollout.reasoning = text, "Hm."
    async with host.open(MODEL, "eval_1") as policy:
        assert (await policy.complete(CHAT, SAMPLING)).text == said


async def test_what_is_served_already_is_used_and_left(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.put("another", policy_id="sha256:other")
    rollout.put("champion")
    async with host.open(MODEL, "eval_1") as policy:
        await policy.complete(CHAT, SAMPLING)
    assert rollout.generated[0].policy == "champion"
    assert sorted(rollout.policies) == ["another", "champion"]
    assert rollout.loads == []


@pytest.mark.parametrize(
    "unfit",
    [{"state": FAILED}, {"weight_updates": 3}, {"policy_id": "sha256:other"}, {"settings_id": "sha256:other"}],
    ids=["failed", "training", "other", "another chat template"],
)
async def test_what_does_not_fit_is_not_used(host: EnginePolicyHost, rollout: Rollout, unfit: dict[str, Any]) -> None:
    rollout.put("champion", **unfit)
    rollout.put(f"eval-{new_id('eval')}")  # another evaluation will unload its own
    async with host.open(MODEL, "eval_1") as policy:
        await policy.complete(CHAT, SAMPLING)
    assert rollout.generated[0].policy == "eval-eval_1"


async def test_what_it_left_behind_is_found_again(host: EnginePolicyHost, rollout: Rollout) -> None:
    holder = new_id("eval")
    rollout.put(f"eval-{holder}")
    rollout.put("eval-mine", policy_id="sha256:other")  # a user's own
    assert await host.holders() == [holder]
    async with host.open(MODEL, holder):
        pass
    assert list(rollout.policies) == ["eval-mine"]
    await host.close(holder)


async def test_a_failed_leftover_is_loaded_anew(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.put("eval-eval_1", state=FAILED, failure=failure_pb2.Failure(message="it died"))
    rollout.states = [FAILED, LOADING, READY]
    async with host.open(MODEL, "eval_1") as policy:
        assert policy.policy_id == WEIGHTS
        [load] = rollout.loads
        assert load.name == "eval-eval_1"
    assert rollout.policies == {}


async def test_a_model_that_cannot_be_loaded_is_named(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.states = [LOADING, FAILED] * 2
    with pytest.raises(FailedPrecondition, match="could not load /models/a"):
        async with host.open(MODEL, "eval_1"):
            pass
    assert rollout.policies == {}


async def test_no_room_and_no_end_are_told_apart(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.states = [LOADING] * 1000
    with pytest.raises(DeadlineExceeded, match="was not loaded within 1 s"):
        async with host.open(MODEL, "eval_1"):
            pass
    rollout.full = True
    with pytest.raises(ResourceExhausted):
        async with host.open(MODEL, "eval_1"):
            pass


async def test_an_answer_from_other_weights_is_refused(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.answers_from = "sha256:other"
    async with host.open(MODEL, "eval_1") as policy:
        with pytest.raises(FailedPrecondition, match="answered from sha256:other"):
            await policy.complete(CHAT, SAMPLING)


async def test_a_completion_that_the_engine_gave_up_is_no_answer(host: EnginePolicyHost, rollout: Rollout) -> None:
    rollout.finish_reason = generation_pb2.FINISH_REASON_ABORTED
    async with host.open(MODEL, "eval_1") as policy:
        with pytest.raises(BrokenOff):
            await policy.complete(CHAT, SAMPLING)


async def test_weights_that_are_gone_are_the_versions_fault_and_a_paths_the_callers(
    host: EnginePolicyHost, rollout: Rollout
) -> None:
    rollout.refuses = InvalidArgument("it holds no model")
    with pytest.raises(DataLoss, match="the version cannot be loaded: it holds no model"):
        async with host.open(MODEL, "eval_1"):
            pass
    with pytest.raises(InvalidArgument):
        async with host.open(ResolvedModel("/models/a"), "eval_1"):
            pass


@pytest.mark.parametrize(
    ("model", "settings_of"),
    [
        (ResolvedModel("/models/a", WEIGHTS, SETTINGS, "starter@2"), "starter"),
        (ResolvedModel("/exports/2", engine_model="starter"), "starter"),
        (ResolvedModel("/exports/2"), ""),
    ],
)
async def test_an_engine_has_the_settings_of_a_registered_model(
    model: ResolvedModel, settings_of: str, rollout: Rollout, host: EnginePolicyHost
) -> None:
    async with host.open(model, new_id("eval")):
        assert rollout.loads[0].options.model == settings_of
