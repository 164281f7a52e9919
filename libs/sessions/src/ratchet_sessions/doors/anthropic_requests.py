"""Requests of Anthropic's Messages (https://docs.anthropic.com/en/api/messages), as far as they are offered here."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, Tag

from ratchet_kit.errors import invalid
from ratchet_policies import ChatPrompt, Sampling, Tool
from ratchet_problems import Message, ToolCall
from ratchet_sessions.doors.conversations import joined, text_of
from ratchet_sessions.doors.numbers import Number, Whole
from ratchet_sessions.doors.openai_requests import MAX_CALLS, MAX_INT32, MAX_MESSAGES, MAX_PARTS, MAX_STOPS
from ratchet_sessions.doors.openai_tools import MAX_TOOLS, Mode, Name, tools_of
from ratchet_sessions.doors.parameters import refuse_unsupported
from ratchet_sessions.doors.texts import A_LIST, A_TEXT, TEXT_OR_LIST, Schema, Text, of_kind, text_only

IGNORED = frozenset(
    (
        *("cache_control", "context_management", "diagnostics", "inference_geo", "service_tier", "speed", "thinking"),
        *("user_profile_id", "workspace_id"),
    )
)
"""Parameters of Anthropic's that change no answer, whatever their value: hints for its caches, its tiers and its books,
and for models that think by degrees."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {"container": (), "mcp_servers": ([],)}
"""Parameters of Anthropic's that are not offered, each with the values that change nothing."""


class _Lenient(BaseModel):
    """Answers come back as they were given, with more fields than matter."""

    model_config = ConfigDict(extra="ignore")


class TextBlock(_Lenient):
    type: Literal["text"]
    text: Text


Texts: TypeAlias = Annotated[
    Annotated[Text, Tag(A_TEXT)]
    | Annotated[
        list[Annotated[TextBlock, text_only("text")]], Field(max_length=MAX_PARTS, fail_fast=True), Tag(A_LIST)
    ],
    TEXT_OR_LIST,
]


class ToolUseBlock(_Lenient):
    type: Literal["tool_use"]
    id: Text
    name: Text
    input: Schema


class ToolResultBlock(_Lenient):
    type: Literal["tool_result"]
    tool_use_id: Text
    content: Texts = ""
    is_error: StrictBool = Field(default=False, description="Ignored: the text says what went wrong.")


class ThinkingBlock(_Lenient):
    """Left out, as in Anthropic's API: models read no earlier thoughts."""

    type: Literal["thinking", "redacted_thinking"]


Block: TypeAlias = Annotated[
    Annotated[TextBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock, Field(discriminator="type")],
    text_only("text", "tool_use", "tool_result", "thinking", "redacted_thinking"),
]


class ConversationMessage(_Lenient):
    role: Literal["user", "assistant", "system"]
    content: Annotated[
        Annotated[Text, Tag(A_TEXT)] | Annotated[list[Block], Field(max_length=MAX_PARTS, fail_fast=True), Tag(A_LIST)],
        TEXT_OR_LIST,
    ]

    def to_chat(self) -> list[Message]:
        """Results of tools are messages of their own, ahead of the text."""
        if isinstance(self.content, str):
            return [Message(self.role, self.content)]
        calls = [ToolCall(one.name, json.dumps(one.input), one.id) for one in self.content if one.type == "tool_use"]
        results = [
            Message("tool", _text(one.content), tool_call_id=one.tool_use_id)
            for one in self.content
            if one.type == "tool_result"
        ]
        if (calls and self.role != "assistant") or (results and self.role != "user"):
            raise invalid("messages", "an assistant has tool_use, and a user tool_result")
        if len(calls) > MAX_CALLS:
            raise invalid("messages", f"one message has at most {MAX_CALLS} tool_use")
        texts = [one.text for one in self.content if one.type == "text"]
        if results and not texts:
            return results
        return [*results, Message(self.role, text_of(texts), tuple(calls))]


class CustomTool(_Lenient):
    type: Literal["custom"] | None = None
    name: Name
    description: Text | None = None
    input_schema: Schema
    strict: StrictBool | None = None

    def to_tool(self) -> Tool:
        return Tool(self.name, self.description or "", json.dumps(self.input_schema), self.strict)


class Choice(_Lenient):
    type: Literal["auto", "any", "tool", "none"]
    name: Name | None = None
    disable_parallel_tool_use: StrictBool = False


MODES: Mapping[str, Mode] = {"any": "required", "none": "none"}


class JsonFormat(_Lenient):
    type: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")


class OutputConfig(_Lenient):
    """Its `effort` is ignored."""

    format: JsonFormat | None = None


class Metadata(_Lenient):
    user_id: Text | None = Field(default=None, description="During a release, one user stays with one version.")


OWN_TOOLS = of_kind("custom", "must be a tool of your own: Anthropic's are not here")


class CountRequest(BaseModel):
    """A conversation, whose tokens are counted."""

    model_config = ConfigDict(extra="allow")

    model: Text
    messages: list[ConversationMessage] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    system: Texts | None = None
    tools: Annotated[list[Annotated[CustomTool, OWN_TOOLS]], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: Choice | None = None
    output_config: OutputConfig | None = None

    def refuse_unsupported(self) -> None:
        """Raises InvalidArgument that names the first parameter that is not offered."""
        refuse_unsupported(self.model_extra, IGNORED, NEUTRAL)

    def prompt(self) -> ChatPrompt:
        if self.messages[0].role == "system":
            raise invalid("messages.0.role", "must be user or assistant: the first of the system is `system`")
        said = _text(self.system or "")
        system = [Message("system", said)] if said else []  # an empty one would replace the template's own
        chat = joined([*system, *(one for message in self.messages for one in message.to_chat())])
        if chat[-1].role == "assistant":
            raise invalid("messages", "must end with the user: the begin of an answer cannot be given")
        choice = self.tool_choice or Choice(type="auto")
        called = (choice.name or "") if choice.type == "tool" else ""
        if choice.type == "tool" and not called:
            raise invalid("tool_choice.name", "is required for a choice of type tool")
        offered = [tool.to_tool() for tool in self.tools or []]
        mode = MODES.get(choice.type, "auto")
        return ChatPrompt(chat, tools_of(offered, mode, called, single=choice.disable_parallel_tool_use))


class MessagesRequest(CountRequest):
    """A conversation that is answered."""

    max_tokens: Whole = Field(ge=1, le=MAX_INT32)
    temperature: Number | None = Field(default=None, ge=0, le=2)
    top_p: Number | None = Field(default=None, gt=0, le=1)
    top_k: Whole | None = Field(default=None, ge=0, le=MAX_INT32, description="0 is off.")
    stop_sequences: Annotated[list[Text], Field(max_length=MAX_STOPS, fail_fast=True)] | None = None
    stream: StrictBool | None = None
    metadata: Metadata | None = None

    def sampling(self) -> Sampling:
        wanted = self.output_config.format if self.output_config else None
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k or None,
            max_tokens=self.max_tokens,
            stop=tuple(self.stop_sequences or ()),
            json_schema=None if wanted is None else json.dumps(wanted.schema_),
            must_fit=True,
        )


def _text(texts: str | list[TextBlock]) -> str:
    return texts if isinstance(texts, str) else text_of(block.text for block in texts)
