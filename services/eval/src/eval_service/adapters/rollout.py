"""PolicyHost on rollout-service."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import grpc

from eval_service.domain.evaluation import ResolvedModel
from eval_service.domain.ports import LoadedPolicy, Sampling
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit.errors import DeadlineExceeded, FailedPrecondition, NotFound, RatchetError
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

_OURS = re.compile(r"eval-(eval_[0-9A-Z]{26})")
_UNLOADING = timedelta(minutes=1)


class GrpcPolicyHost:
    def __init__(
        self,
        channel: grpc.aio.Channel,
        load_timeout: timedelta = timedelta(minutes=15),
        generate_timeout: timedelta = timedelta(minutes=5),
        poll: timedelta = timedelta(milliseconds=500),
    ) -> None:
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)
        self._load_timeout = load_timeout.total_seconds()
        self._generate_timeout = generate_timeout.total_seconds()
        self._poll = poll.total_seconds()

    @asynccontextmanager
    async def open(self, model: ResolvedModel, holder: str) -> AsyncIterator[LoadedPolicy]:
        served = await self._served(model.policy_id)
        if served is not None:
            log.info("policy.reused", policy=served.name)
            yield self._policy(served)
            return
        try:
            yield self._policy(await self._load(model, holder))
        finally:
            try:
                await self.close(holder)
            except RatchetError as error:  # the worker looks for leftovers now and then
                log.warning("policy.not_unloaded", holder=holder, error=error.message)

    async def holders(self) -> Sequence[str]:
        matches = [_OURS.fullmatch(policy.name) for policy in await self._list()]
        return [match[1] for match in matches if match]

    async def close(self, holder: str) -> None:
        with suppress(NotFound), rpc_errors():
            request = pb.UnloadPolicyRequest(name=_name(holder))
            await self._stub.UnloadPolicy(request, timeout=_UNLOADING.total_seconds())

    def _policy(self, policy: pb.Policy) -> LoadedPolicy:
        return _GrpcPolicy(self._stub, policy.name, policy.policy_id, self._generate_timeout)

    async def _served(self, policy_id: str) -> pb.Policy | None:
        """A policy with these weights that somebody else keeps. Not one that training updates."""
        for policy in await self._list() if policy_id else []:
            fits = policy.policy_id == policy_id and policy.state == pb.Policy.STATE_READY
            if fits and policy.weight_updates == 0 and not _OURS.fullmatch(policy.name):
                return policy
        return None

    async def _load(self, model: ResolvedModel, holder: str) -> pb.Policy:
        name = _name(holder)
        request = pb.LoadPolicyRequest(
            request_id=name, name=name, source=model.source, expected_policy_id=model.policy_id
        )
        with rpc_errors():
            policy = (await self._stub.LoadPolicy(request)).policy
            if policy.state in (pb.Policy.STATE_FAILED, pb.Policy.STATE_UNLOADING):  # left over from another attempt
                await self.close(holder)
                policy = (await self._stub.LoadPolicy(request)).policy
            try:
                async with asyncio.timeout(self._load_timeout):
                    while policy.state == pb.Policy.STATE_LOADING:
                        await asyncio.sleep(self._poll)
                        policy = (await self._stub.GetPolicy(pb.GetPolicyRequest(name=name))).policy
            except TimeoutError as error:
                raise DeadlineExceeded(f"{model.source} was not loaded within {self._load_timeout:.0f} s") from error
        if policy.state != pb.Policy.STATE_READY:
            raise FailedPrecondition(f"rollout-service could not load {model.source}: {policy.error}")
        return policy

    async def _list(self) -> Sequence[pb.Policy]:
        policies: list[pb.Policy] = []
        request = pb.ListPoliciesRequest()
        while True:
            with rpc_errors():
                reply = await self._stub.ListPolicies(request)
            policies += reply.policies
            if not reply.next_page_token:
                return policies
            request = pb.ListPoliciesRequest(page_token=reply.next_page_token)


class _GrpcPolicy:
    def __init__(
        self, stub: "rollout_pb2_grpc.RolloutServiceAsyncStub", name: str, policy_id: str, timeout: float
    ) -> None:
        self._stub = stub
        self._name = name
        self._policy_id = policy_id
        self._timeout = timeout

    @property
    def policy_id(self) -> str:
        return self._policy_id

    async def complete(self, prompt: str, sampling: Sampling) -> str:
        request = pb.GenerateRequest(
            policy=self._name,
            chat=pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content=prompt)]),
            sampling=pb.SamplingParams(
                temperature=sampling.temperature, max_tokens=sampling.max_tokens, seed=sampling.seed
            ),
            expected_policy_id=self._policy_id,
        )
        with rpc_errors():
            reply = await self._stub.Generate(request, timeout=self._timeout)
        if reply.policy_id != self._policy_id:
            raise FailedPrecondition(f"{self._name} answered from {reply.policy_id}, not from {self._policy_id}")
        text: str = reply.completions[0].text
        return text


def _name(holder: str) -> str:
    return f"eval-{holder}"
