"""Answers of OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses-streaming): whole, and as
events."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field

from ratchet_kit.errors import RatchetError
from ratchet_policies import FinishReason
from ratchet_sessions.doors import sse
from ratchet_sessions.doors.answers import Answer, AnswerPiece, Piece
from ratchet_sessions.doors.blocks import Block, Blocks, Change, Closed, Grown, Opened, blocks_of
from ratchet_sessions.doors.errors import RESPONSES_PARAMS, openai_error_body
from ratchet_sessions.doors.responses_requests import FunctionTool, NamedFunction, ResponsesRequest, TextConfig

State = Literal["in_progress", "completed", "incomplete"]


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = Field(default_factory=list, max_length=0)
    logprobs: list[Any] = Field(default_factory=list, max_length=0)


class OutputMessage(BaseModel):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: State
    content: list[OutputText]


class ReasoningText(BaseModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class ReasoningItem(BaseModel):
    id: str
    type: Literal["reasoning"] = "reasoning"
    status: State
    summary: list[Any] = Field(default_factory=list, max_length=0)
    content: list[ReasoningText]


class MadeCall(BaseModel):
    id: str
    type: Literal["function_call"] = "function_call"
    call_id: str
    name: str
    arguments: str = Field(description="A JSON object, as the model wrote it.")
    status: State


class CachedTokens(BaseModel):
    cached_tokens: Literal[0] = 0
    cache_write_tokens: Literal[0] = 0


class ReasoningTokens(BaseModel):
    reasoning_tokens: Literal[0] = 0


class Usage(BaseModel):
    input_tokens: int
    input_tokens_details: CachedTokens = CachedTokens()
    output_tokens: int
    output_tokens_details: ReasoningTokens = ReasoningTokens()
    total_tokens: int


class Incomplete(BaseModel):
    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseObject(BaseModel):
    id: str = Field(description="For feedback.")
    object: Literal["response"] = "response"
    created_at: int
    status: State
    model: str = Field(description='The version that answered, "starter@2".')
    output: list[OutputMessage | ReasoningItem | MadeCall]
    usage: Usage | None
    error: None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: None = None
    store: Literal[False] = Field(default=False, description="Answers are not kept.")
    temperature: float | None
    text: TextConfig
    tool_choice: str | NamedFunction
    tools: list[FunctionTool]
    top_p: float | None
    truncation: Literal["disabled"] = "disabled"
    user: str | None


class Writer:
    def __init__(self, body: ResponsesRequest, created: int) -> None:
        self._body = body
        self._created = created
        self._id = ""
        self._version = ""
        self._blocks = Blocks()
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._events = 0

    def whole(self, replies: Sequence[Answer]) -> ResponseObject:
        (reply,) = replies
        self._id, self._version = reply.id, str(reply.version)
        self._blocks = blocks_of(reply.generation.completions[0])
        self._prompt_tokens, self._completion_tokens = reply.generation.prompt_tokens, reply.completion_tokens
        self._of_nothing()
        return self._ended()

    async def events(self, first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[str]:
        self._id, self._version = first.piece.id, str(first.piece.version)
        begun = self._response("in_progress", None).model_dump(by_alias=True)
        async with aclosing(rest):
            try:
                yield self._event("response.created", response=begun)
                yield self._event("response.in_progress", response=begun)
                yield self._changes(first.piece)
                async for piece in rest:
                    if text := self._changes(piece.piece):
                        yield text
            except RatchetError as error:
                said = openai_error_body(error, RESPONSES_PARAMS)["error"]
                yield self._event("error", code=said["code"], message=said["message"], param=said["param"], error=said)
                return
        if text := self._of_nothing():
            yield text
        ended = self._ended()
        yield self._event(f"response.{ended.status}", response=ended.model_dump(by_alias=True))

    def _ended(self) -> ResponseObject:
        usage = Usage(
            input_tokens=self._prompt_tokens,
            output_tokens=self._completion_tokens,
            total_tokens=self._prompt_tokens + self._completion_tokens,
        )
        return self._response("incomplete" if self._is_cut else "completed", usage)

    @property
    def _is_cut(self) -> bool:
        return self._blocks.finish_reason is FinishReason.LENGTH

    def _response(self, state: State, usage: Usage | None) -> ResponseObject:
        body = self._body
        return ResponseObject(
            id=self._id,
            created_at=self._created,
            status=state,
            model=self._version,
            output=[self._item(block, self._state(block)) for block in self._blocks.made],
            usage=usage,
            incomplete_details=Incomplete() if state == "incomplete" else None,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            parallel_tool_calls=body.parallel_tool_calls is not False,
            temperature=body.temperature,
            text=body.text or TextConfig(),
            tool_choice=body.tool_choice or "auto",
            tools=body.tools or [],
            top_p=body.top_p,
            user=body.user,
        )

    def _state(self, block: Block) -> State:
        """The last block is the one that max_output_tokens cuts off."""
        return "incomplete" if self._is_cut and block is self._blocks.made[-1] else "completed"

    def _item(self, block: Block, state: State) -> OutputMessage | ReasoningItem | MadeCall:
        name = self._name(block)
        if block.is_call:
            return MadeCall(id=name, call_id=block.call_id, name=block.name, arguments=block.text, status=state)
        if block.is_reasoning:
            thoughts = [] if state == "in_progress" else [ReasoningText(text=block.text)]
            return ReasoningItem(id=name, status=state, content=thoughts)
        content = [] if state == "in_progress" else [OutputText(text=block.text)]
        return OutputMessage(id=name, status=state, content=content)

    def _name(self, block: Block) -> str:
        kind = "fc" if block.is_call else "rs" if block.is_reasoning else "msg"
        return f"{kind}_{self._id}_{block.index}"

    def _changes(self, piece: AnswerPiece) -> str:
        self._prompt_tokens += piece.delta.prompt_tokens
        self._completion_tokens += len(piece.delta.completion.token_ids)
        return "".join(text for change in self._blocks.add(piece.delta.completion) for text in self._change(change))

    def _of_nothing(self) -> str:
        """An answer without anything is an empty message: a program sends back what it got, and has to get one."""
        if self._blocks.made:
            return ""
        block = Block(0)
        self._blocks.made.append(block)
        return "".join(text for change in (Opened(block), Closed(block)) for text in self._change(change))

    def _change(self, change: Change) -> Iterator[str]:
        block = change.block
        item: dict[str, Any] = {"item_id": self._name(block), "output_index": block.index}
        part = item if block.is_call else item | {"content_index": 0}
        match change:
            case Opened():
                yield self._event_of_item("response.output_item.added", block, "in_progress")
                if not block.is_call:
                    yield self._event("response.content_part.added", **part, part=_part(block, "").model_dump())
            case Grown(_, text) if block.is_call:
                yield self._event("response.function_call_arguments.delta", **part, delta=text)
            case Grown(_, text) if block.is_reasoning:
                yield self._event("response.reasoning_text.delta", **part, delta=text)
            case Grown(_, text):
                yield self._event("response.output_text.delta", **part, delta=text, logprobs=[])
            case Closed():
                if block.is_call:
                    yield self._event(
                        "response.function_call_arguments.done", **part, name=block.name, arguments=block.text
                    )
                else:
                    if block.is_reasoning:
                        yield self._event("response.reasoning_text.done", **part, text=block.text)
                    else:
                        yield self._event("response.output_text.done", **part, text=block.text, logprobs=[])
                    whole = _part(block, block.text).model_dump()
                    yield self._event("response.content_part.done", **part, part=whole)
                yield self._event_of_item("response.output_item.done", block, self._state(block))

    def _event_of_item(self, name: str, block: Block, state: State) -> str:
        return self._event(name, output_index=block.index, item=self._item(block, state).model_dump())

    def _event(self, kind: str, /, **data: Any) -> str:
        number = self._events
        self._events += 1
        return sse.event({"type": kind, "sequence_number": number} | data, kind)


def _part(block: Block, text: str) -> OutputText | ReasoningText:
    return ReasoningText(text=text) if block.is_reasoning else OutputText(text=text)
