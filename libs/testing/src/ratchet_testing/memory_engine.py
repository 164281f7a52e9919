"""An engine in memory that renders as rollout-service does, over a tokenizer of bytes."""

import json
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from ratchet_kit.errors import InvalidArgument, Unavailable, invalid
from ratchet_kit.work import Priority
from ratchet_policies import ChatPrompt, Completion, Delta, FinishReason, Sampling
from ratchet_problems import Message, ToolCall, rendering
from ratchet_testing.chats import FORMS, ByteTokenizer

POLICY = "sha256:" + "0" * 64
PIECE = 3
"""Tokens of a piece of a stream."""


def record(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        made["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.loads(one.arguments)}}
            for one in message.tool_calls
        ]
    return made | ({"tool_call_id": message.tool_call_id} if message.tool_call_id else {})


@dataclass(frozen=True, slots=True)
class Sample:
    """As the engine made it."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]


@dataclass(slots=True)  # mutable: it draws its answers one after the other
class MemoryEngine:
    """`says`: the texts and the calls of tools of the next answers; then it says "yes"."""

    form: str = "qwen2.5"
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    says: list[Message] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    lies: str = ""
    """Its answers are wrong so: "prompt", "log_probs", "aborted" or "dies"."""
    samplings: list[Sampling] = field(default_factory=list)
    priorities: list[Priority] = field(default_factory=list)
    cut: bool = False
    """Answers end at max_tokens."""
    thinks: str = ""
    """Thoughts before each answer, which it reads apart."""

    @property
    def tokenizer(self) -> ByteTokenizer:
        return ByteTokenizer(FORMS[self.form])

    def render(self, prompt: ChatPrompt) -> list[int]:
        chat, tokenizer = [record(message) for message in prompt.messages], self.tokenizer
        tools = [{"name": tool.name} for tool in prompt.tools.offered] if prompt.tools else None
        try:
            if prompt.begun is None:
                return rendering.tokens(tokenizer, rendering.rendered(tokenizer, chat, tools=tools))
            ids, count = prompt.begun.ids, prompt.begun.messages
            return [*ids, *rendering.following(tokenizer, chat, count, ids, tokenizer.stops, tools=tools)]
        except InvalidArgument as error:
            raise invalid("prompt.chat.begun", error.message) from error
        except ValueError as error:
            raise invalid("prompt.chat.messages", str(error)) from error

    async def stream(
        self, name: str, policy_id: str, prompt: ChatPrompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        prompt_ids = self.render(prompt)
        self.samplings.append(sampling)
        self.priorities.append(priority)
        if self.lies == "prompt":
            prompt_ids = prompt_ids[1:]
        for index in range(sampling.n):
            said = self.says.pop(0) if self.says else Message("assistant", "yes")
            async for one in self._one(index, said, prompt_ids):
                yield one

    async def _one(self, index: int, said: Message, prompt_ids: list[int]) -> AsyncGenerator[Delta]:
        form, tokenizer = FORMS[self.form], self.tokenizer
        calls = "".join(f"<tool_call>{call.name} {call.arguments}</tool_call>" for call in said.tool_calls)
        thought = f"<think>{self.thinks}</think>" if self.thinks else ""
        ids = tokenizer.sampled(thought + said.content + calls, self.chance)
        if not self.cut:
            ids += tokenizer.encode(form.of_calls if calls and form.of_calls else form.stops[0])
        log_probs = [-self.chance.random() for _ in ids]
        self.samples.append(Sample(tuple(prompt_ids), tuple(ids), tuple(log_probs)))
        whole = said.content
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.LENGTH if self.cut else FinishReason.STOP
        if self.lies == "aborted":
            reason = FinishReason.ABORTED
        for place in range(0, len(ids), PIECE):
            last, first = place + PIECE >= len(ids), index == place == 0
            size = len(whole) if last else min(len(whole), place)
            text, whole = whole[:size], whole[size:]
            if self.lies == "dies" and not first:
                raise Unavailable("the engine is gone")
            completion = Completion(
                index=index,
                text=text,
                finish_reason=reason if last else FinishReason.UNFINISHED,
                token_ids=tuple(ids[place : place + PIECE]),
                log_probs=() if self.lies == "log_probs" else tuple(log_probs[place : place + PIECE]),
                tool_calls=said.tool_calls if last else (),
                reasoning=self.thinks if place == 0 else "",
            )
            yield Delta(completion, POLICY, len(prompt_ids) if first else 0, None, prompt_ids if first else ())


def call(place: int, **arguments: Any) -> ToolCall:
    return ToolCall("run", json.dumps(arguments), f"call{place:05}", place)
