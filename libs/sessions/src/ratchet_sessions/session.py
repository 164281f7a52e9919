"""A session: the calls that one program made to models, as a graph with tokens.

    call 0 -> call 1 -> call 2    each goes on from the tokens of the one before
           -> call 3              the program rewrote what came after the answer of call 0: a branch
    call 4                        it rewrote its first question: a branch without a parent

A call goes on from an earlier one of its role where its messages are that one's, its answer and something new. Then
the tokens that were read and sampled are kept as they are. Where the program rewrote the past a branch begins, which
says what differs, and where.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import DataLoss, ResourceExhausted
from ratchet_policies import Begun, Completion, FinishReason, Tool, Tools
from ratchet_problems import Message
from ratchet_sessions import pasts

MAX_CALLS = 4096
MAX_TOKENS = 1 << 24
"""Tokens of one session, prompts counted once for each call: a program is not trusted."""
MAX_TEXT = 1 << 26
"""Letters of one session, those of a message that is said again counted once: what fails and what forms an answer has
no tokens."""
_OVERHEAD = 64
"""Letters that a message counts for beside its text."""


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
        return not (self.json_schema or (self.tools and self.tools.hold))


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
    reasoning: str = ""
    """Thoughts before the answer, where the node reads them apart; the tokens hold them in any case."""

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
    _text: int = field(default=0, init=False, compare=False)
    _pasts: defaultdict[str, pasts.Node] = field(
        default_factory=lambda: defaultdict(pasts.Node), init=False, repr=False, compare=False
    )
    """Trees of messages, by role."""

    def __post_init__(self) -> None:
        for call in self.calls:
            self._count(call, self._known(call.question))
        self._text += sum(_letters(one.question, self._known(one.question)) for one in self.failed)

    def origin(self, question: Question) -> Origin:
        """Where the call goes on from: the longest that fits, of equals the newest. So is the nearest of a branch.

        Raises ResourceExhausted for a session that is full.
        """
        if self._is_full:
            most = f"{MAX_CALLS} calls, {MAX_TOKENS} tokens and {MAX_TEXT} letters"
            raise ResourceExhausted(f"a session has at most {most}")
        offered = _offered(question)
        known = self._known(question)
        longest = min(len(known), len(question.messages))  # a past has to have something new after it
        kept = next((place for place in range(longest - 1, 0, -1) if offered in known[place].ends), 0)
        nearest = _nearest(known, question, offered)
        if not kept:
            return Origin(branch=nearest)
        branch = nearest if nearest.call is not None and nearest.message >= kept else None
        parent = self.calls[known[kept].ends[offered]]
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
        known = self._known(question)
        call = Call(
            index=len(self.calls),
            question=_shared(question, known),
            origin=origin,
            answer=answer,
            prompt_ids=begun + tuple(prompt_ids[len(begun) :]),  # the same objects: long conversations are many
            token_ids=completion.token_ids,
            log_probs=completion.log_probs,
            policy_id=policy_id,
            finish_reason=completion.finish_reason,
            start_time=start_time,
            end_time=end_time,
            reasoning=completion.reasoning,
        )
        self._count(call, known)
        self.calls.append(call)
        return call

    def add(self, call: Call) -> None:
        """Keeps a call as it is, which has no tokens where nobody recorded them."""
        self._count(call, self._known(call.question))
        self.calls.append(call)

    def fail(self, failed: Failed) -> None:
        """Keeps what failed, as far as there is room; a fault of the platform always."""
        if failed.is_fault or not self._is_full:
            known = self._known(failed.question)
            self._text += _letters(failed.question, known)
            self.failed.append(replace(failed, question=_shared(failed.question, known)))

    @property
    def letters(self) -> int:
        """About the size of its texts, as MAX_TEXT counts them."""
        return self._text

    @property
    def _is_full(self) -> bool:
        many = len(self.calls) + len(self.failed)
        return many >= MAX_CALLS or self._tokens >= MAX_TOKENS or self._text >= MAX_TEXT

    def _known(self, question: Question) -> list[pasts.Node]:
        return pasts.walk(self._pasts[question.role], question.messages)

    def _count(self, call: Call, known: Sequence[pasts.Node]) -> None:
        self._tokens += len(call.ids)
        self._text += _letters(call.question, known) + _size(call.answer) + len(call.reasoning)
        pasts.add(known, (*call.question.messages, call.answer), _offered(call.question), call.index)

    @property
    def lost(self) -> list[Failed]:
        """Faults of the platform that the program met: those whose question was not answered later, asked again."""
        return [one for one in self.failed if one.is_fault and not any(_again(one, call) for call in self.calls)]

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


def _offered(question: Question) -> tuple[Tool, ...]:
    """As the template reads them: which of them must be called is the sampler's affair."""
    return question.tools.offered if question.tools else ()


def _nearest(known: Sequence[pasts.Node], question: Question, offered: tuple[Tool, ...]) -> Branch:
    """The call that has the most of the question's messages without those that it could go on from."""
    for same in range(len(known) - 1, -1, -1):
        node, ends = known[same], known[same].ends
        if same == len(question.messages):
            return Branch(BranchReason.SHORTENED, node.newest, same) if node.newest >= 0 else Branch(BranchReason.FIRST)
        rewritten = node.others(known[same + 1] if same + 1 < len(known) else None)
        retooled = max((call for tools, call in ends.items() if tools != offered), default=-1)
        if max(rewritten, retooled) >= 0:
            reason = BranchReason.REWRITTEN if rewritten > retooled else BranchReason.TOOLS
            return Branch(reason, max(rewritten, retooled), same)
    return Branch(BranchReason.FIRST)


def _shared(question: Question, known: Sequence[pasts.Node]) -> Question:
    """The same, of the messages that are there already, as far as they are: long conversations are many."""
    pairs = zip(known[1:], question.messages, strict=False)
    there = (node.message if node.message == message else message for node, message in pairs)
    return replace(question, messages=(*there, *question.messages[len(known) - 1 :]))


def _letters(question: Question, known: Sequence[pasts.Node]) -> int:
    """About the size of what is new in it."""
    tools = sum(len(tool.description) + len(tool.parameters) for tool in _offered(question))
    return len(question.role) + len(question.json_schema) + tools + sum(map(_size, question.messages[len(known) - 1 :]))


def _size(message: Message) -> int:
    calls = sum(_OVERHEAD + len(call.arguments) + len(call.name) + len(call.id) for call in message.tool_calls)
    return _OVERHEAD + len(message.content) + len(message.tool_call_id) + calls
