"""An episode's door: an HTTP server on loopback that speaks OpenAI's and Anthropic's APIs, answers with policies of
rollout-service, and records each call into the episode's session.

    session = Session()
    async with opened(Door(session, {"": Seat(engine, policy.name, sampling)})) as door:
        subprocess.run(command, env={"OPENAI_BASE_URL": f"{door.url}/v1", "OPENAI_API_KEY": door.key})
    session.paths()
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ratchet_kit.errors import InvalidArgument, NotFound, Unauthenticated, Unavailable, Unimplemented
from ratchet_kit.http_server import HttpServer, while_connected
from ratchet_kit.ids import new_id
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.tool_servers import ToolServer
from ratchet_kit.work import Priority
from ratchet_policies import (
    ChatPrompt,
    Completion,
    Delta,
    FinishReason,
    Generation,
    Sampling,
    joined,
    require_whole,
)
from ratchet_problems import Message, ToolCall
from ratchet_sessions.doors import anthropic_answers, bodies, errors, openai_answers, responses_answers, sse, tool_calls
from ratchet_sessions.doors.access import key_of, limited
from ratchet_sessions.doors.answers import Answer, Piece, Writer, seconds
from ratchet_sessions.doors.anthropic_requests import MessagesRequest
from ratchet_sessions.doors.blocks import Blocks
from ratchet_sessions.doors.conversations import text_of
from ratchet_sessions.doors.openai_requests import ChatRequest
from ratchet_sessions.doors.openai_writer import Writer as ChatWriter
from ratchet_sessions.doors.responses_requests import ResponsesRequest
from ratchet_sessions.session import Branch, BranchReason, Failed, Origin, Question, Session

_GRACE = timedelta(seconds=2)
_TOOLS = "/tools"
TOOLS_URL = "TOOL_SERVERS_URL"
"""Variable of a program's environment: an MCP server's URL is this, a slash and its name."""
WAITS = timedelta(minutes=1)
"""From then on the platform is at fault where a program leaves that has nothing of its answer."""


class Engine(Protocol):
    """The part of a `PolicyEngine` that answers."""

    def stream(
        self, name: str, policy_id: str, prompt: ChatPrompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        """See `PolicyEngine.stream`."""
        ...


@dataclass(frozen=True, slots=True)
class Seat:
    """Who answers for a role."""

    engine: Engine
    policy: str
    sampling: Sampling = field(default_factory=Sampling)
    """How tokens are drawn, whatever the program asks for. Its own are the ends of an answer (`max_tokens`, the smaller
    of both, and `stop`), the form that an answer follows, and their number. Each question has a seed of its own, made
    of this one."""
    policy_id: str = ""
    """The weights that must answer; empty: those that are loaded."""
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """A piece of an answer, as the doors write one."""

    id: str
    version: str
    delta: Delta


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    id: str
    version: str
    generation: Generation

    @property
    def completion_tokens(self) -> int:
        return sum(len(one.token_ids) for one in self.generation.completions)


class Door:
    """An ASGI application. Who calls it needs `key`, which is this door's alone."""

    def __init__(
        self,
        session: Session,
        seats: Mapping[str, Seat],
        clock: Clock = SystemClock(),
        tool_servers: Mapping[str, ToolServer] = {},
    ) -> None:
        """`seats`: by role, the name that the program gives a model. A seat named "" answers for every other name.
        `tool_servers`: by name, at /tools/NAME."""
        self.key = secrets.token_urlsafe(24)
        self.url = ""
        """Set while it is open."""
        self._session = session
        self._seats = seats
        self._clock = clock
        self._tool_servers = tool_servers
        self._draws: defaultdict[bytes, set[int]] = defaultdict(set)
        """By question, the draws that it was answered by, or waits for: each has another seed."""
        self._endpoints = {
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/responses"): self._responses,
            ("POST", "/v1/messages"): self._messages,
            ("GET", "/v1/models"): self._models,
        }

    def variables(self, url: str) -> dict[str, str]:
        """Environment of a program that reaches this door at `url`: the official clients read it."""
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": self.key,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": self.key,
            **({TOOLS_URL: f"{url}{_TOOLS}"} if self._tool_servers else {}),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, limited(receive))

        async def answer() -> Response:
            if not hmac.compare_digest(key_of(scope).encode(), self.key.encode()):
                raise Unauthenticated("this door needs its episode's key")
            if scope["path"].startswith(f"{_TOOLS}/"):
                return await self._tools(request, scope["path"].removeprefix(f"{_TOOLS}/"))
            endpoint = self._endpoints.get((scope["method"], scope["path"]))
            if endpoint is None:
                known, wanted = ", ".join(path for _, path in self._endpoints), f"{scope['method']} {scope['path']}"
                raise errors.UnknownUrl(f"{wanted}: there is no such endpoint. An episode's door has {known}")
            return await endpoint(request)

        response = await errors.answered(request, answer)
        await response(scope, request.receive, send)

    async def _chat(self, http: Request) -> Response:
        body = await bodies.read_as(http, ChatRequest)
        body.refuse_unsupported()
        prompt, sampling = cast(ChatPrompt, body.prompts()[0]), body.sampling()
        writer = ChatWriter(openai_answers.CHAT, seconds(self._clock.now()), sampling.n, body.with_usage)
        return await self._answer(http, body.model, prompt, sampling, writer, _as_chat, stream=bool(body.stream))

    async def _responses(self, http: Request) -> Response:
        body = await bodies.read_as(http, ResponsesRequest)
        body.refuse_unsupported()
        writer = responses_answers.Writer(body, seconds(self._clock.now()))
        prompt, sampling = body.prompt(), body.sampling()
        return await self._answer(http, body.model, prompt, sampling, writer, _as_blocks, stream=bool(body.stream))

    async def _messages(self, http: Request) -> Response:
        body = await bodies.read_as(http, MessagesRequest)
        body.refuse_unsupported()
        writer, prompt, sampling = anthropic_answers.Writer(), body.prompt(), body.sampling()
        return await self._answer(http, body.model, prompt, sampling, writer, _as_blocks, stream=bool(body.stream))

    async def _models(self, http: Request) -> Response:
        created = seconds(self._clock.now())
        cards = [openai_answers.ModelCard(id=role, created=created) for role in self._seats if role]
        return Response(openai_answers.ModelList(data=cards).model_dump_json(), media_type="application/json")

    async def _tools(self, http: Request, name: str) -> Response:
        """An answer that the program did not get is the platform's fault, as one of a model is."""
        server = self._tool_servers.get(name)
        if server is None:
            raise HTTPException(404, f"there is no tool server {name}: there are {', '.join(self._tool_servers)}")
        tool_calls.check_method(http)
        body, begin = await http.body(), self._clock.now()

        def lost(error: Unavailable) -> None:
            question = Question(f"tools/{name}", ())
            self._session.fail(Failed(question, error.message, True, begin, self._clock.now()))

        try:
            return await while_connected(http.receive, tool_calls.pass_on(http, body, name, server, WAITS, lost))
        except Unavailable as error:
            lost(error)
            raise

    async def _answer(
        self,
        http: Request,
        role: str,
        prompt: ChatPrompt,
        sampling: Sampling,
        writer: Writer,
        sent_back: Callable[[Sequence[Completion]], Message],
        *,
        stream: bool,
    ) -> Response:
        """`sent_back`: the answer as the program sends it back, of the pieces that it gets: of a stream many."""
        question = Question(role, prompt.messages, prompt.tools, sampling.json_schema or "")

        def given(pieces: Sequence[Completion]) -> Message:
            return sent_back(pieces if stream else [joined(pieces)])

        pieces = self._pieces(question, sampling, given)
        if not stream:
            whole = await while_connected(http.receive, _whole(pieces))
            return Response(writer.whole([whole]).model_dump_json(by_alias=True), media_type="application/json")
        started = await sse.started(http.receive, pieces)
        return sse.EventStream(writer.events(await anext(started), started))

    async def _pieces(
        self, question: Question, sampling: Sampling, given: Callable[[Sequence[Completion]], Message]
    ) -> AsyncGenerator[Piece]:
        """The answer is recorded before the program has all of it: its next call may come at once."""
        seat = self._seats.get(question.role) or self._seats.get("")
        if seat is None:
            raise NotFound(f"this episode has no model {question.role}: it has {', '.join(self._seats)}")
        begin, id = self._clock.now(), new_id("cmp")
        made: defaultdict[int, list[Completion]] = defaultdict(list)
        prompt_ids: Sequence[int] = ()
        recorded = False
        origin = self._session.origin(question)
        digest = _digest(question)
        drawn = self._draws[digest]
        draw = next(one for one in count() if one not in drawn)
        drawn.add(draw)
        wanted = _drawn(seat.sampling, sampling, _seed(seat.sampling.seed, digest, draw))
        try:
            async with aclosing(self._deltas(seat, question, origin, wanted)) as deltas:
                async for origin, delta in deltas:
                    made[delta.completion.index].append(delta.completion)
                    prompt_ids = prompt_ids or delta.prompt_ids
                    if sum(one[-1].finish_reason is not FinishReason.UNFINISHED for one in made.values()) == wanted.n:
                        answers = {index: joined(made[index]) for index in sorted(made)}
                        require_whole(answers.values())
                        for index, one in answers.items():
                            end, answer = self._clock.now(), given(made[index])
                            self._session.record(question, origin, answer, one, prompt_ids, delta.policy_id, begin, end)
                        recorded = True
                    yield Piece(0, AnswerDelta(id, question.role, delta))
        except BaseException as error:
            if not recorded:
                drawn.discard(draw)
                self._session.fail(_failed(question, error, begin, self._clock.now(), began=bool(made)))
            raise

    async def _deltas(
        self, seat: Seat, question: Question, origin: Origin, sampling: Sampling
    ) -> AsyncGenerator[tuple[Origin, Delta]]:
        """Where the template cannot go on from the answer, the conversation is rendered anew: a branch."""
        prompt = ChatPrompt(question.messages, question.tools, begun=origin.begun)
        started = False
        try:
            made = seat.engine.stream(seat.policy, seat.policy_id, prompt, sampling, seat.priority)
            async with aclosing(made) as deltas:
                async for delta in deltas:
                    started = True
                    yield origin, delta
        except InvalidArgument as error:
            if started or origin.begun is None or not any(v.field == "prompt.chat.begun" for v in error.violations):
                raise
            origin = Origin(branch=Branch(BranchReason.TEMPLATE, origin.parent, origin.begun.messages))
            async with aclosing(self._deltas(seat, question, origin, sampling)) as deltas:
                async for one in deltas:
                    yield one


@asynccontextmanager
async def opened(door: Door) -> AsyncIterator[Door]:
    """Serves on a free port of loopback until the block ends."""
    server, stop = HttpServer(door, "127.0.0.1", 0, _GRACE), asyncio.Event()
    door.url = server.url
    serving = asyncio.create_task(server.run(stop))
    try:
        yield door
    finally:
        stop.set()
        await serving
        door.url = ""


async def _whole(pieces: AsyncGenerator[Piece]) -> Answer:
    made: defaultdict[int, list[Completion]] = defaultdict(list)
    first: AnswerDelta | None = None
    async with aclosing(pieces):
        async for one in pieces:
            piece = cast(AnswerDelta, one.piece)
            first = first or piece
            made[piece.delta.completion.index].append(piece.delta.completion)
    assert first is not None, "an answer has a piece"
    completions = tuple(joined(made[index]) for index in sorted(made))
    delta = first.delta
    return WholeAnswer(first.id, first.version, Generation(completions, delta.policy_id, delta.prompt_tokens))


def _failed(question: Question, error: BaseException, begin: datetime, end: datetime, *, began: bool) -> Failed:
    """`began`: there was some of the answer."""
    if isinstance(error, Exception):
        reason = str(error) or type(error).__name__
        return Failed(question, reason, not isinstance(error, InvalidArgument | Unimplemented), begin, end)
    if not began and end - begin > WAITS:
        waited = f"the program left after {(end - begin).total_seconds():.0f} s without an answer"
        return Failed(question, waited, True, begin, end)
    return Failed(question, "the program left amid the answer", False, begin, end)


def _seed(seed: int | None, digest: bytes, draw: int) -> int | None:
    """48 bits, the same whenever the same is asked for the same draw: calls side by side come in any order."""
    if seed is None:
        return None
    drawn = hashlib.sha256(f"{seed}:{draw}:".encode() + digest).digest()
    return int.from_bytes(drawn[:6], "big")


def _digest(question: Question) -> bytes:
    return hashlib.sha256(repr(question).encode("utf-8", "surrogatepass")).digest()


def _drawn(seat: Sampling, program: Sampling, seed: int | None) -> Sampling:
    limits = [limit for limit in (seat.max_tokens, program.max_tokens) if limit is not None]
    return replace(
        seat,
        seed=seed,
        logprobs=True,
        max_tokens=min(limits, default=None),
        stop=(*seat.stop, *program.stop),
        n=program.n,
        top_logprobs=program.top_logprobs,
        json_schema=program.json_schema,
        must_fit=False,
    )


def _as_chat(pieces: Sequence[Completion]) -> Message:
    """The answer as a program sends it back in OpenAI's chats."""
    whole = joined(pieces)
    return Message("assistant", whole.text, whole.tool_calls)


def _as_blocks(pieces: Sequence[Completion]) -> Message:
    """As in Anthropic's API and OpenAI's Responses: a row of texts and calls, of which thoughts are left out."""
    blocks = Blocks()
    for piece in pieces:
        for _ in blocks.add(piece):
            pass
    texts = (block.text for block in blocks.made if not (block.is_call or block.is_reasoning))
    calls = [block for block in blocks.made if block.is_call]
    made = (ToolCall(block.name, block.text, block.call_id, place) for place, block in enumerate(calls))
    return Message("assistant", text_of(texts), tuple(made))
