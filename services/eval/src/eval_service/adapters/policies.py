"""PolicyHost over rollout-service."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from eval_service.domain.evaluation import ResolvedModel
from eval_service.domain.ports import Answer, LoadedPolicy, Played
from ratchet.sandbox.v1 import workspace_pb2
from ratchet_environments import EnvironmentSpec
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.judging import Judged
from ratchet_environments.workspaces import Workspaces
from ratchet_episodes import Episode, harness_of, record, run
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.tool_servers import ToolServer
from ratchet_kit.work import Priority, surviving
from ratchet_policies import (
    EngineShare,
    EngineUsage,
    FinishReason,
    Policy,
    PolicyEngine,
    PolicySpec,
    PolicyState,
    Prompt,
    Purpose,
    Sampling,
    ensure_ready,
    require_whole,
    unload,
)
from ratchet_sessions.door import Seat
from ratchet_sessions.record import as_text

log = get_logger(__name__)

_LIMITS = {
    workspace_pb2.ExecExit.END_CPU_LIMIT: "TIME_LIMIT",
    workspace_pb2.ExecExit.END_WALL_LIMIT: "TIME_LIMIT",
    workspace_pb2.ExecExit.END_MEMORY_LIMIT: "MEMORY_LIMIT",
}
"""Verdicts of harnesses that solved nothing, by the limit that ended them."""
_OURS = re.compile(r"eval-(eval_[0-9A-Z]{26}(?:-[a-z0-9]+)?)")


class EnginePolicyHost:
    def __init__(
        self,
        engine: PolicyEngine,
        load_timeout: timedelta = timedelta(minutes=15),
        poll: timedelta = timedelta(milliseconds=500),
        workspaces: Workspaces | None = None,
        tool_servers: Mapping[str, ToolServer] = {},
    ) -> None:
        """`workspaces`: where harnesses play, with the operator's `tool_servers`."""
        self._engine = engine
        self._workspaces = workspaces
        self._tool_servers = tool_servers
        self._load_timeout = load_timeout
        self._poll = poll

    @asynccontextmanager
    async def open(self, model: ResolvedModel, holder: str) -> AsyncIterator[LoadedPolicy]:
        policies = await self._engine.all()
        served = await self._served(model, policies)
        if served is not None:
            log.info("policy.reused", policy=served.name)
            share = EngineShare(served.usage, alone=False)
            policy = _EnginePolicy(self._engine, served, share, self._workspaces, self._tool_servers)
            try:
                yield policy
            finally:
                await policy.look()
            return
        left = next((one.usage for one in policies if one.name == _name(holder)), EngineUsage())
        registered = model.engine_model or model.version.partition("@")[0]
        spec = PolicySpec(_name(holder), model.source, model.policy_id, purpose=Purpose.EVALUATION, model=registered)
        try:
            loaded = await self._loaded(model, spec)
            policy = _EnginePolicy(self._engine, loaded, EngineShare(left), self._workspaces, self._tool_servers)
            try:
                yield policy
            finally:
                await policy.look()
        finally:
            try:
                await self.close(holder)
            except RatchetError as error:  # the worker looks for leftovers now and then
                log.warning("policy.not_unloaded", holder=holder, reason=error.message)

    async def _loaded(self, model: ResolvedModel, spec: PolicySpec) -> Policy:
        try:
            return await ensure_ready(self._engine, spec, timeout=self._load_timeout, poll=self._poll)
        except InvalidArgument as error:
            if not model.policy_id:  # a path that the caller named
                raise
            raise DataLoss(f"the version cannot be loaded: {error.message}") from error

    async def holders(self) -> Sequence[str]:
        matches = [_OURS.fullmatch(policy.name) for policy in await self._engine.all()]
        return [match[1] for match in matches if match]

    async def close(self, holder: str) -> None:
        await unload(self._engine, _name(holder))

    async def _served(self, model: ResolvedModel, policies: Sequence[Policy]) -> Policy | None:
        """A policy with these weights, tokenizer and chat template that somebody else keeps. Not one that training
        updates."""
        identity = (model.policy_id, model.settings_id)
        for policy in policies if all(identity) else []:
            fits = (policy.policy_id, policy.settings_id) == identity and policy.state is PolicyState.READY
            if fits and policy.weight_updates == 0 and not _OURS.fullmatch(policy.name):
                with suppress(NotFound):  # unloaded meanwhile
                    return replace(policy, usage=(await self._engine.get(policy.name)).usage)
        return None


class _EnginePolicy:
    def __init__(
        self,
        engine: PolicyEngine,
        policy: Policy,
        share: EngineShare,
        workspaces: Workspaces | None,
        tool_servers: Mapping[str, ToolServer],
    ) -> None:
        self._engine = engine
        self._workspaces = workspaces
        self._tool_servers = tool_servers
        self._share = share
        self._name = policy.name
        self._policy_id = policy.policy_id
        self._settings_id = policy.settings_id
        self._has_chat_template = policy.has_chat_template

    @property
    def policy_id(self) -> str:
        return self._policy_id

    @property
    def settings_id(self) -> str:
        return self._settings_id

    @property
    def has_chat_template(self) -> bool:
        return self._has_chat_template

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Answer:
        generation = await self._engine.generate(self._name, self._policy_id, prompt, sampling, Priority.LOW)
        [completion] = generation.completions
        self._share.made(generation.prompt_tokens, len(completion.token_ids))
        require_whole(generation.completions)
        truncated = completion.finish_reason is FinishReason.LENGTH
        return Answer(completion.said, len(completion.token_ids), truncated)

    async def play(self, environment: EnvironmentSpec, folder: TaskFolder, sampling: Sampling) -> Played:
        assert self._workspaces is not None
        harness = harness_of(environment, self._tool_servers)
        seat = Seat(self._engine, self._name, sampling, self._policy_id, Priority.LOW)
        episode = await run(self._workspaces, folder, harness, {"": seat}, forgeable=True)
        for call in episode.session.calls:
            self._share.made(len(call.prompt_ids), len(call.token_ids))
        if episode.judged is None:
            await self._require_weights()
            raise Unavailable(episode.fault)
        return replace(_played(episode, episode.judged), record=await _kept(folder, episode))

    async def _require_weights(self) -> None:
        """Raises NotFound, FailedPrecondition where the policy is gone or holds others."""
        now = await self._engine.get(self._name)
        if now.state is not PolicyState.READY or now.policy_id != self._policy_id:
            raise FailedPrecondition(f"{self._name} is {now.state}, with the weights {now.policy_id}")

    async def look(self) -> EngineShare:
        with suppress(RatchetError):
            self._share.seen((await self._engine.get(self._name)).usage)
        return self._share


def _played(episode: Episode, judged: Judged) -> Played:
    ended, calls = episode.done.exit, episode.session.calls
    return Played(
        judged.passed,
        judged.reason,
        judged.forgeable,
        as_text(episode.session),
        len(calls),
        sum(len(call.token_ids) for call in calls),
        ended.cpu_time.ToTimedelta(),
        ended.wall_time.ToTimedelta(),
        _LIMITS.get(ended.end, ""),
        record.tool_errors(episode.session),
    )


async def _kept(folder: TaskFolder, episode: Episode) -> bytes:
    """Empty where it can't be made: the verdict stands without it."""
    with surviving("episode.record", task=folder.name):
        return await asyncio.to_thread(lambda: record.pack(record.to_json(record.record_of(folder, episode))))
    return b""


def _name(holder: str) -> str:
    return f"eval-{holder}"
