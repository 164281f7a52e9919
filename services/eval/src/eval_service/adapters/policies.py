"""PolicyHost over rollout-service."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from eval_service.domain.evaluation import ResolvedModel
from eval_service.domain.ports import Answer, LoadedPolicy
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.work import Priority
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

log = get_logger(__name__)

_OURS = re.compile(r"eval-(eval_[0-9A-Z]{26}(?:-[a-z0-9]+)?)")


class EnginePolicyHost:
    def __init__(
        self,
        engine: PolicyEngine,
        load_timeout: timedelta = timedelta(minutes=15),
        poll: timedelta = timedelta(milliseconds=500),
    ) -> None:
        self._engine = engine
        self._load_timeout = load_timeout
        self._poll = poll

    @asynccontextmanager
    async def open(self, model: ResolvedModel, holder: str) -> AsyncIterator[LoadedPolicy]:
        policies = await self._engine.all()
        served = await self._served(model, policies)
        if served is not None:
            log.info("policy.reused", policy=served.name)
            policy = _EnginePolicy(self._engine, served, EngineShare(served.usage, alone=False))
            try:
                yield policy
            finally:
                await policy.look()
            return
        left = next((one.usage for one in policies if one.name == _name(holder)), EngineUsage())
        spec = PolicySpec(_name(holder), model.source, model.policy_id, purpose=Purpose.EVALUATION)
        try:
            policy = _EnginePolicy(self._engine, await self._loaded(model, spec), EngineShare(left))
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
    def __init__(self, engine: PolicyEngine, policy: Policy, share: EngineShare) -> None:
        self._engine = engine
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
        return Answer(completion.text, len(completion.token_ids), truncated)

    async def look(self) -> EngineShare:
        with suppress(RatchetError):
            self._share.seen((await self._engine.get(self._name)).usage)
        return self._share


def _name(holder: str) -> str:
    return f"eval-{holder}"
