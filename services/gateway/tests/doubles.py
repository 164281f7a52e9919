"""An engine, a registry and a grader in memory, whose behaviour a test sets."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gateway_service.domain.ports import GateResult, RegisteredModel, RegisteredVersion
from gateway_service.domain.traffic.record import ProblemRef
from gateway_service.domain.webhooks.event import Event
from ratchet_kit.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    Failure,
    FieldViolation,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_kit.work import Priority
from ratchet_policies import (
    ChatPrompt,
    Completion,
    Delta,
    Echo,
    FinishReason,
    Generation,
    Node,
    NodeState,
    Policy,
    PolicySpec,
    PolicyState,
    Prompt,
    Sampling,
    TextPrompt,
    TokenCandidate,
    TokenPrompt,
    Tools,
)
from ratchet_problems import ToolCall

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def policy_id_of(source: str) -> str:
    return f"sha256:{source}"


@dataclass
class ScriptedEngine:
    """Answers each prompt with its last words, once for each of `n`. Of the tools that a user offers it calls all, or
    the one that must be called, with the words as arguments.

    `loads_at_once`: a load is READY when it is first looked at, else `finish_loading` says when. `before_answer` runs
    ahead of every answer with the policy's name: it may raise, or move a clock. `breaks_off_after` so many words of a
    policy's last choice, by the policy's name.
    """

    capacity: int = 8
    loads_at_once: bool = True
    before_answer: Callable[[str], None] = lambda name: None
    breaks_off_after: dict[str, int] = field(default_factory=dict)
    refuse_sources: Mapping[str, str] = field(default_factory=dict)
    refuses_with: str = "INVALID_ARGUMENT"
    policies: dict[str, Policy] = field(default_factory=dict)
    loads: Counter[str] = field(default_factory=Counter)
    streams_closed: int = 0
    samplings: list[Sampling] = field(default_factory=list)
    """Of each answer so far."""
    prompts: list[Prompt] = field(default_factory=list)
    reads_calls: bool = True
    """Whether it takes tools."""
    kept: list[tuple[str, int]] = field(default_factory=list)
    """Names that were said to be in use, with their replicas."""

    failing: set[str] = field(default_factory=set)
    """Policies whose engines' breakers are open: a request is Unavailable."""

    def answers(self, name: str, policy_id: str) -> bool:
        policy = self.policies.get(name)
        is_ready = policy is not None and (policy.state, policy.policy_id) == (PolicyState.READY, policy_id)
        return is_ready and name not in self.failing

    async def keep(self, spec: PolicySpec, replicas: int) -> None:
        self.kept.append((spec.name, replicas))

    async def load(self, spec: PolicySpec) -> Policy:
        name, source = spec.name, spec.source
        if not source:
            raise InvalidArgument("a policy needs a source")
        if name in self.policies:
            raise AlreadyExists(f"policy {name} is loaded")
        if len(self.policies) >= self.capacity:
            raise ResourceExhausted(f"{self.capacity} policies are loaded")
        self.loads[name] += 1
        policy = Policy(name, PolicyState.LOADING, policy_id_of(source))
        if source in self.refuse_sources:
            policy = Policy(name, PolicyState.FAILED, failure=Failure(self.refuses_with, self.refuse_sources[source]))
        elif self.loads_at_once:
            policy = replace(policy, state=PolicyState.READY)
        self.policies[name] = policy
        return policy

    def finish_loading(self, name: str) -> None:
        self.policies[name] = replace(self.policies[name], state=PolicyState.READY)

    async def get(self, name: str) -> Policy:
        if name not in self.policies:
            raise NotFound(f"policy {name} is not loaded")
        return self.policies[name]

    async def all(self) -> Sequence[Policy]:
        return [self.policies[name] for name in sorted(self.policies)]

    async def unload(self, name: str) -> None:
        await self.get(name)
        del self.policies[name]

    async def generate(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> Generation:
        words = await self._words(name, policy_id, prompt)
        self.samplings.append(sampling)
        made = [] if sampling.max_tokens == 0 else _stopped(words, sampling)
        stop = _stop(words, sampling)
        calls = _calls(prompt, words)
        completions = tuple(
            Completion(
                index=index,
                text="" if calls else " ".join(made),
                finish_reason=_reason(prompt, calls, words, sampling),
                token_ids=tuple(range(len(made))),
                tool_calls=calls,
                stop=stop,
                candidates=tuple(_candidates(word, sampling) for word in made)
                if sampling.top_logprobs is not None
                else (),
            )
            for index in range(sampling.n)
        )
        if name in self.breaks_off_after:
            part = words[: self.breaks_off_after[name]]
            broken = Completion(sampling.n - 1, " ".join(part), FinishReason.ABORTED, tuple(range(len(part))))
            completions = (*completions[:-1], broken)
        return Generation(completions, policy_id, len(words), _echo(words, sampling))

    async def stream(
        self, name: str, policy_id: str, prompt: Prompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        words = await self._words(name, policy_id, prompt)
        self.samplings.append(sampling)
        calls = _calls(prompt, words)
        made = _stopped(words, sampling)
        try:
            for position, word in enumerate(made):
                last = position == len(made) - 1
                for index in range(sampling.n):
                    text = word if position == 0 else f" {word}"
                    if index == sampling.n - 1 and position == self.breaks_off_after.get(name):
                        yield Delta(Completion(index, "", FinishReason.ABORTED), policy_id)
                        return
                    piece = Completion(
                        index=index,
                        text="" if calls else text,
                        finish_reason=(_reason(prompt, calls, words, sampling) if last else FinishReason.UNFINISHED),
                        token_ids=(position,),
                        tool_calls=_pieces(calls, position, last),
                        candidates=(_candidates(word, sampling),) if sampling.top_logprobs is not None else (),
                        stop=_stop(words, sampling) if last else "",
                    )
                    opens = position == index == 0
                    echo = _echo(words, sampling) if opens else None
                    yield Delta(piece, policy_id, len(words) if opens else 0, echo)
        finally:
            self.streams_closed += 1

    async def _words(self, name: str, policy_id: str, prompt: Prompt) -> Sequence[str]:
        policy = await self.get(name)
        if policy.state is not PolicyState.READY or policy.policy_id != policy_id:
            raise FailedPrecondition(f"policy {name} is {policy.state} with {policy.policy_id}")
        self.before_answer(name)
        if name in self.failing:
            raise Unavailable(f"no engine of {name} answers")
        self.prompts.append(prompt)
        if isinstance(prompt, ChatPrompt) and prompt.tools and not self.reads_calls:
            text = "set RATCHET_ROLLOUT_TOOL_PARSERS"
            raise InvalidArgument(text, [FieldViolation("prompt.chat.tools", text)])
        text = _text(prompt)
        if not text:
            raise InvalidArgument("the prompt is empty")
        return text.split()


def _candidates(word: str, sampling: Sampling) -> tuple[TokenCandidate, ...]:
    return tuple(TokenCandidate(rank, word, -0.5 - rank) for rank in range(1 + (sampling.top_logprobs or 0)))


def _tools(prompt: Prompt) -> Tools | None:
    return prompt.tools if isinstance(prompt, ChatPrompt) and prompt.messages[-1].role == "user" else None


def _calls(prompt: Prompt, words: Sequence[str]) -> tuple[ToolCall, ...]:
    tools = _tools(prompt)
    if tools is None:
        return ()
    names = [tools.called] if tools.called else [tool.name for tool in tools.offered][: 1 if tools.single else None]
    arguments = json.dumps({"said": " ".join(words)})
    return tuple(ToolCall(name, arguments, f"call_{index}", index) for index, name in enumerate(names))


def _pieces(calls: Sequence[ToolCall], position: int, last: bool) -> tuple[ToolCall, ...]:
    """The names come with the first word, the arguments with the last."""
    pieces = [replace(call, arguments="") for call in calls] if position == 0 else []
    if last:
        pieces += [replace(call, name="", id="") for call in calls]
    return tuple(pieces)


def _stop(words: Sequence[str], sampling: Sampling) -> str:
    return next((word for word in words if word in sampling.stop), "")


def _stopped(words: Sequence[str], sampling: Sampling) -> Sequence[str]:
    """Up to a word that is a stop string, and to `max_tokens`."""
    stop = _stop(words, sampling)
    return (words[: words.index(stop)] if stop else words)[: sampling.max_tokens]


def _reason(prompt: Prompt, calls: Sequence[ToolCall], words: Sequence[str], sampling: Sampling) -> FinishReason:
    tools = _tools(prompt)
    if not calls and not _stop(words, sampling) and len(words) > (sampling.max_tokens or len(words)):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if tools and calls and not tools.called else FinishReason.STOP


def _echo(words: Sequence[str], sampling: Sampling) -> Echo | None:
    if not sampling.echo:
        return None
    places = [_candidates(word, sampling) for word in words] if sampling.top_logprobs is not None else []
    if places:
        places[0] = (replace(places[0][0], log_prob=math.nan),)
    return Echo(" ".join(words), tuple(places))


def _text(prompt: Prompt) -> str:
    match prompt:
        case ChatPrompt(messages):
            return messages[-1].content
        case TextPrompt(text):
            return text
        case TokenPrompt(ids):
            return " ".join(map(str, ids))


@dataclass
class ScriptedRegistry:
    """Models with versions 1 to n whose weights lie at "<model>/<n>"."""

    versions: dict[str, int] = field(default_factory=dict)
    aliases: dict[tuple[str, str], int] = field(default_factory=dict)
    gates: dict[str, GateResult] = field(default_factory=dict)
    refuse_promotion: RatchetError | None = None
    away: RatchetError | None = None
    promotions: list[tuple[VersionRef, str]] = field(default_factory=list)
    taken_back: list[VersionRef] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)
    """Model -> the champion before its present one."""

    async def models(self) -> Sequence[RegisteredModel]:
        return [await self.model(name) for name in sorted(self.versions)]

    async def model(self, name: str) -> RegisteredModel:
        if self.away is not None:
            raise self.away
        if name not in self.versions:
            raise NotFound(f"model {name} does not exist")
        number = self.aliases.get((name, CHAMPION))
        aliases = {alias: pointed for (model, alias), pointed in self.aliases.items() if model == name}
        champion, before = (VersionRef(name, n) if n else None for n in (number, self.before.get(name)))
        return RegisteredModel(name, EPOCH, champion, aliases, before)

    async def version(self, ref: VersionRef) -> RegisteredVersion:
        if self.away is not None:
            raise self.away
        if not 1 <= ref.number <= self.versions.get(ref.model, 0):
            raise NotFound(f"version {ref} does not exist")
        source = f"{ref.model}/{ref.number}"
        return RegisteredVersion(ref, source, policy_id_of(source), EPOCH)

    async def resolve(self, model: str, alias: str) -> RegisteredVersion:
        if (model, alias) not in self.aliases:
            raise NotFound(f"model {model} has no alias {alias}")
        return await self.version(VersionRef(model, self.aliases[model, alias]))

    async def gate(self, gate_id: str) -> GateResult:
        if gate_id not in self.gates:
            raise NotFound(f"gate {gate_id} does not exist")
        return self.gates[gate_id]

    async def promote(self, ref: VersionRef, replaced: VersionRef, gate_id: str, reason: str) -> None:
        if self.refuse_promotion is not None:
            raise self.refuse_promotion
        if self.aliases[ref.model, CHAMPION] != replaced.number:
            raise Aborted(f"the champion of {ref.model} is not {replaced}")
        await self.version(ref)
        self.aliases[ref.model, CHAMPION] = ref.number
        self.promotions.append((ref, gate_id))

    async def take_back(self, ref: VersionRef, returning: VersionRef, reason: str) -> None:
        await self.promote(returning, ref, "", reason)
        self.taken_back.append(ref)


@dataclass
class ScriptedGrader:
    """Scores 1 the texts that hold the problem's id."""

    problems: set[str] = field(default_factory=set)
    fault: RatchetError | None = None
    graded: int = 0

    async def grade(self, problem: ProblemRef, texts: Sequence[str]) -> Sequence[float]:
        if self.fault is not None:
            raise self.fault
        if problem.problem_id not in self.problems:
            raise NotFound(f"problem {problem.problem_id} is not in {problem.problem_set}")
        self.graded += len(texts)
        return [float(problem.problem_id in text) for text in texts]


class ScriptedDataSets:
    """Data sets, as far as they are told who is forgotten."""

    def __init__(self) -> None:
        self.forgotten: list[Mapping[str, datetime]] = []
        self.is_away = False

    async def forget(self, units: Mapping[str, datetime]) -> None:
        if self.is_away:
            raise Unavailable("the registry is away")
        self.forgotten.append(units)


@dataclass
class ScriptedNodes:
    """Rollout nodes by their addresses."""

    found: dict[str, Node] = field(default_factory=dict)

    def nodes(self) -> Sequence[Node]:
        return [self.found[address] for address in sorted(self.found)]

    async def drain(self, address: str, draining: bool) -> Node:
        if address not in self.found:
            raise NotFound(f"no rollout node has the address {address}")
        state = NodeState.DRAINING if draining else NodeState.SERVING
        self.found[address] = replace(self.found[address], state=state)
        return self.found[address]


class ScriptedEndpoints:
    """What webhooks lead to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, str], str]] = []
        """URL, headers and body of each attempt."""
        self.statuses: dict[str, int] = {}
        """By URL; 204 where there is none, no answer where it is 0."""
        self.hangs: dict[str, asyncio.Event] = {}
        """Those that answer once theirs is set."""

    async def send(self, url: str, headers: Mapping[str, str], body: str) -> int:
        self.sent.append((url, headers, body))
        if url in self.hangs:
            await self.hangs[url].wait()
        status = self.statuses.get(url, 204)
        if not status:
            raise Unavailable("the endpoint could not be reached: ConnectError")
        return status


class ScriptedFeed:
    """What other services tell of: a test puts it in `batches`."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Event]] = []
        self.looks = 0

    async def read(self, block: timedelta) -> Sequence[Event]:
        self.looks += 1
        return self.batches[0] if self.batches else ()

    async def ack(self) -> None:
        self.batches = self.batches[1:]
