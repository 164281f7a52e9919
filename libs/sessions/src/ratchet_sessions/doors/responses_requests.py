"""Requests of OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses), as far as they are
offered here."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, Tag

from ratchet_kit.errors import invalid
from ratchet_policies import ChatPrompt, Sampling, Tool
from ratchet_problems import Message, ToolCall
from ratchet_sessions.doors.conversations import joined
from ratchet_sessions.doors.numbers import Number, Whole
from ratchet_sessions.doors.openai_requests import MAX_INT32, MAX_MESSAGES, MAX_PARTS, TextFormat
from ratchet_sessions.doors.openai_tools import MAX_TOOLS, Mode, Name, tools_of
from ratchet_sessions.doors.parameters import refuse_unsupported
from ratchet_sessions.doors.texts import A_LIST, A_TEXT, TEXT_OR_LIST, Schema, Text, of_kind, read_by, text_only

IGNORED = frozenset(
    (
        *("access_programs", "client_metadata", "context_management", "max_tool_calls", "prompt_cache_key"),
        *("prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier"),
        *("stream_options", "truncation"),
    )
)
"""Parameters of OpenAI's that change no answer, whatever their value: hints for its caches, its tiers and its books,
for models that think by degrees, and for tools that are OpenAI's own."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "conversation": (),
    "image": (),
    "include": ([], ["reasoning.encrypted_content"]),
    "moderation": (),
    "previous_response_id": (),
    "prompt": (),
    "store": (False,),
    "top_logprobs": (0,),
}
"""Parameters of OpenAI's that are not offered, each with the values that change nothing."""
_NOT_KEPT = "is not offered: answers are not kept here, so send the whole conversation as input"
REASONS: Mapping[str, str] = {
    "background": "is not offered: answers are not kept here, so wait for this one or stream it",
    "conversation": _NOT_KEPT,
    "previous_response_id": _NOT_KEPT,
    "store": _NOT_KEPT,
}


class _Lenient(BaseModel):
    """Answers come back as they were given, with more fields than matter."""

    model_config = ConfigDict(extra="ignore")


class TextPart(_Lenient):
    type: Literal["input_text", "output_text", "text"]
    text: Text


Content: TypeAlias = Annotated[
    Annotated[Text, Tag(A_TEXT)]
    | Annotated[
        list[Annotated[TextPart, text_only("input_text", "output_text", "text")]],
        Field(max_length=MAX_PARTS, fail_fast=True),
        Tag(A_LIST),
    ],
    TEXT_OR_LIST,
]


class InputMessage(_Lenient):
    role: Literal["user", "assistant", "system", "developer"]
    content: Content

    def to_chat(self) -> Message:
        return Message("system" if self.role == "developer" else self.role, _text(self.content))


class FunctionCall(_Lenient):
    call_id: Text
    name: Text
    arguments: Text

    def to_chat(self) -> Message:
        return Message("assistant", "", (ToolCall(self.name, self.arguments, self.call_id),))


class FunctionCallOutput(_Lenient):
    call_id: Text
    output: Content

    def to_chat(self) -> Message:
        return Message("tool", _text(self.output), tool_call_id=self.call_id)


class Reasoning(_Lenient):
    """Its text is left out: models read no earlier thoughts. An answer that was thoughts alone is an empty one."""

    def to_chat(self) -> Message:
        return Message("assistant", "")


def _kind(item: Any) -> str | None:
    """A message may come without a type."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type", "message")
    return f"[{kind}]" if kind in ("message", "function_call", "function_call_output", "reasoning") else None


Item: TypeAlias = Annotated[
    Annotated[InputMessage, Tag("[message]")]
    | Annotated[FunctionCall, Tag("[function_call]")]
    | Annotated[FunctionCallOutput, Tag("[function_call_output]")]
    | Annotated[Reasoning, Tag("[reasoning]")],
    read_by(_kind, "a message, a function_call, a function_call_output or a reasoning"),
]


class FunctionTool(_Lenient):
    type: Literal["function"]
    name: Name
    description: Text | None = None
    parameters: Schema | None = None
    strict: StrictBool | None = None

    def to_tool(self) -> Tool:
        parameters = "" if self.parameters is None else json.dumps(self.parameters)
        return Tool(self.name, self.description or "", parameters, self.strict)


class NamedFunction(_Lenient):
    type: Literal["function"]
    name: Name


class SchemaFormat(_Lenient):
    type: Literal["json_schema"]
    name: Text = ""
    schema_: Schema = Field(alias="schema")

    @property
    def json_schema_of_text(self) -> Mapping[str, Any] | None:
        return self.schema_


class TextConfig(_Lenient):
    """Its `verbosity` is ignored."""

    format: Annotated[TextFormat | SchemaFormat, Field(discriminator="type")] | None = None


OWN_TOOLS = of_kind("function", "must be a function of your own: OpenAI's tools are not here")


class ResponsesRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: Text
    input: Annotated[
        Annotated[Text, Tag(A_TEXT)]
        | Annotated[list[Item], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True), Tag(A_LIST)],
        TEXT_OR_LIST,
    ]
    instructions: Text | None = None
    max_output_tokens: Whole | None = Field(default=None, ge=1, le=MAX_INT32)
    temperature: Number | None = Field(default=None, ge=0, le=2)
    top_p: Number | None = Field(default=None, gt=0, le=1)
    tools: Annotated[list[Annotated[FunctionTool, OWN_TOOLS]], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = (
        None
    )
    tool_choice: Mode | NamedFunction | None = None
    parallel_tool_calls: StrictBool | None = Field(default=None, description="False: at most one call.")
    text: TextConfig | None = None
    stream: StrictBool | None = None
    user: Text | None = Field(default=None, description="During a release, one user stays with one version.")
    metadata: dict[Text, Text] | None = Field(default=None, description="Comes back with the answer.")

    def refuse_unsupported(self) -> None:
        """Raises InvalidArgument that names the first parameter that is not offered."""
        refuse_unsupported(self.model_extra, IGNORED, NEUTRAL, REASONS)

    def prompt(self) -> ChatPrompt:
        chat = joined([*self._instructions(), *self._items()])
        if not chat:
            raise invalid("input", "must hold a message")
        called = self.tool_choice.name if isinstance(self.tool_choice, NamedFunction) else ""
        mode = self.tool_choice if isinstance(self.tool_choice, str) else "auto"
        offered = [tool.to_tool() for tool in self.tools or []]
        return ChatPrompt(chat, tools_of(offered, mode, called, single=self.parallel_tool_calls is False))

    def sampling(self) -> Sampling:
        wanted = self.text.format.json_schema_of_text if self.text and self.text.format else None
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_output_tokens,
            json_schema=None if wanted is None else json.dumps(wanted),
            must_fit=True,
        )

    def _instructions(self) -> Sequence[Message]:
        return [Message("system", self.instructions)] if self.instructions else []

    def _items(self) -> Sequence[Message]:
        if isinstance(self.input, str):
            return [Message("user", self.input)]
        items = list(self.input)
        while items and isinstance(items[-1], Reasoning):  # nothing goes on from it
            items.pop()
        return [item.to_chat() for item in items]


def _text(content: str | list[TextPart]) -> str:
    """Parts are put together as they are, as in a chat."""
    return content if isinstance(content, str) else "".join(part.text for part in content)
