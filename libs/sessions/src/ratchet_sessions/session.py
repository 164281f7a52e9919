"""A session: the calls that one program made to models, as a graph with tokens.

    call 0 -> call 1 -> call 2    each goes on from the tokens of the one before
           -> call 3              the program rewrote what came after the answer of call 0: a branch
    call 4                        it rewrote its first question: a branch without a parent

A call goes on from an earlier one of its role where its messages are that one's, its answer and something new. Then
the tokens that were read and sampled are kept as they are. Where the program rewrote the past a branch begins, which
says what differs, and where.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import DataLoss, ResourceExhausted
from ratchet_policies import Begun, Completion, FinishReason, Tool, Tools
from ratchet_problems import Message, ToolCall

MAX_CALLS = 4096
MAX_TOKENS = 1 << 24
"""Tokens of one session, prompts counted once for each call: a program is not trusted."""


class BranchReason(StrEnum):
    """Says what made a branch begin."""

    FIRST = "first"
    """It is the first of its role."""
    REWRITTEN = "rewritten"
    """A message is another than it was."""
    SHORTENED = "shortened"
    """Messages at the end were left out, or nothing was added."""
    TOOLS = "tools"
    """Other tools are offered, which templates write at the beginning."""
    TEMPLATE = "template"
    """The model's chat template cannot go on from the answer."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a call leaves the way of another, which has no fewer of its messages than the one it goes on from."""

    reason: BranchReason
    call: int | None = None
    """The call that it is nearest to; None for the first."""
    message: int = 0
    """Place of the first message that differs."""


@dataclass(frozen=True, slots=True)
class Question:
    """A program's question to a model."""

    role: str
    """The name that the program gives the model."""
    messages: tuple[Message, ...]
    tools: Tools | None = None
    json_schema: str = ""
    """The form that the answer has to follow; empty: any."""

    @property
    def is_open(self) -> bool:
        """The model alone chooses the tokens: no form and no call is forced on it."""
        forced = self.tools and (self.tools.required or self.tools.called or any(map(_strict, self.tools.offered)))
        return not (self.json_schema or forced)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a call begins: after `parent` with its tokens, at a branch, or both."""

    parent: int | None = None
    begun: Begun | None = None
    branch: Branch | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One answer of a model. Its token ids and log-probs are those of the engine, never made of its text."""

    index: int
    question: Question
    origin: Origin
    answer: Message
    """As the program was given it."""
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    policy_id: str
    finish_reason: FinishReason
    start_time: datetime
    end_time: datetime

    @property
    def ids(self) -> tuple[int, ...]:
        return self.prompt_ids + self.token_ids


@dataclass(frozen=True, slots=True)
class Failed:
    """A call without an answer: no sample, and no verdict about the policy."""

    question: Question
    reason: str
    is_fault: bool
    """The platform's: the program asked for what is offered, and stayed."""
    start_time: datetime
    end_time: datetime


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the graph, from its beginning to a call that nothing goes on from."""

    calls: tuple[int, ...]
    ids: tuple[int, ...]
    sampled: tuple[int, ...]
    """For each token the call that sampled it; -1 for those of the program, its tools and the template."""
    log_probs: tuple[float, ...]
    """For each token; 0 for those that were not sampled."""


@dataclass(slots=True)  # mutable: it grows with each call
class Session:
    """Grows by one call at a time. Who asks takes its origin first, and records the answer under it."""

    calls: list[Call] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    _tokens: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._tokens = sum(len(call.ids) for call in self.calls)

    def origin(self, question: Question) -> Origin:
        """Where the call goes on from: the longest that fits, of equals the newest. So is the nearest of a branch.

        Raises ResourceExhausted for a session that is full.
        """
        if len(self.calls) + len(self.failed) >= MAX_CALLS or self._tokens >= MAX_TOKENS:
            raise ResourceExhausted(f"a session has at most {MAX_CALLS} calls and {MAX_TOKENS} tokens")
        nearest, parent, kept = Branch(BranchReason.FIRST), None, 0
        for call in reversed(self.calls):
            if call.question.role != question.role:
                continue
            past = (*call.question.messages, call.answer)
            same = _shared(past, question.messages)
            fits = same == len(past) < len(question.messages)
            if fits and _offered(call.question) == _offered(question):
                if same > kept:
                    parent, kept = call, same
                continue
            reason = BranchReason.TOOLS if fits else BranchReason.REWRITTEN
            if same == len(question.messages):
                reason = BranchReason.SHORTENED
            if nearest.call is None or same > nearest.message:
                nearest = Branch(reason, call.index, same)
        if parent is None:
            return Origin(branch=nearest)
        branch = nearest if nearest.call is not None and nearest.message >= kept else None
        return Origin(parent.index, Begun(parent.ids, kept), branch)

    def record(
        self,
        question: Question,
        origin: Origin,
        answer: Message,
        completion: Completion,
        prompt_ids: Sequence[int],
        policy_id: str,
        start_time: datetime,
        end_time: datetime,
    ) -> Call:
        """Keeps an answer. Raises DataLoss, and keeps nothing, for one that is no sample: its prompt does not go on
        from the tokens that it was to go on from, or its log-probs or its policy are not there."""
        begun = origin.begun.ids if origin.begun else ()
        if not prompt_ids or tuple(prompt_ids[: len(begun)]) != begun:
            raise DataLoss("the engine's prompt does not go on from the tokens that were sampled")
        if not policy_id or len(completion.log_probs) != len(completion.token_ids):
            raise DataLoss("the answer came without its policy's id, or without a log-prob for each token")
        call = Call(
            index=len(self.calls),
            question=question,
            origin=origin,
            answer=answer,
            prompt_ids=begun + tuple(prompt_ids[len(begun) :]),  # the same objects: long conversations are many
            token_ids=completion.token_ids,
            log_probs=completion.log_probs,
            policy_id=policy_id,
            finish_reason=completion.finish_reason,
            start_time=start_time,
            end_time=end_time,
        )
        self._tokens += len(call.ids)
        self.calls.append(call)
        return call

    def fail(self, failed: Failed) -> None:
        """Keeps what failed, as far as there is room."""
        if len(self.calls) + len(self.failed) < MAX_CALLS:
            self.failed.append(failed)

    @property
    def lost(self) -> list[Failed]:
        """Faults of the platform that the program met: those whose question was not answered later, asked again."""
        return [one for one in self.failed if one.is_fault and not any(_again(one, call) for call in self.calls)]

    def answered(self, question: Question) -> int:
        """Number of answers to the question so far."""
        return sum(call.question == question for call in self.calls)

    @property
    def branches(self) -> Mapping[int, Branch]:
        """By the call that begins one."""
        return {call.index: call.origin.branch for call in self.calls if call.origin.branch}

    def paths(self) -> Iterator[Path]:
        """Each way through the graph: a call that several go on from is in several. Every sampled token stands where it
        was sampled."""
        parents = {call.origin.parent for call in self.calls}
        for call in self.calls:
            if call.index not in parents:
                yield self._path(call)

    def way(self, call: Call) -> list[Call]:
        """The calls that it goes on from, the first one first, and itself."""
        found = [call]
        while found[-1].origin.parent is not None:
            found.append(self.calls[found[-1].origin.parent])
        return found[::-1]

    def _path(self, last: Call) -> Path:
        way = self.way(last)
        sampled, log_probs = [-1] * len(last.ids), [0.0] * len(last.ids)
        for call in way:
            place = slice(len(call.prompt_ids), len(call.ids))
            sampled[place] = [call.index] * len(call.token_ids)
            log_probs[place] = call.log_probs
        return Path(tuple(call.index for call in way), last.ids, tuple(sampled), tuple(log_probs))


def _again(failed: Failed, call: Call) -> bool:
    return call.start_time >= failed.end_time and call.question == failed.question


def _strict(tool: Tool) -> bool:
    return bool(tool.strict)


def _offered(question: Question) -> tuple[Tool, ...]:
    """As the template reads them: which of them must be called is the sampler's affair."""
    return question.tools.offered if question.tools else ()


def _shared(past: Sequence[Message], messages: Sequence[Message]) -> int:
    """Number of messages, from the first on, that are the same."""
    pairs = zip(past, messages, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if not _same(a, b)), min(len(past), len(messages)))


def _same(one: Message, other: Message) -> bool:
    if one == other:
        return True
    texts = one.role == other.role and one.content == other.content and one.tool_call_id == other.tool_call_id
    return texts and list(map(_call, one.tool_calls)) == list(map(_call, other.tool_calls))


def _call(call: ToolCall) -> tuple[str, str, str]:
    """Programs read the arguments and write them again: the spaces between them, and their order, say nothing."""
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return call.id, call.name, arguments
