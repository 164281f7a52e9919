"""Requests of OpenAI's API (https://platform.openai.com/docs/api-reference), as far as they are offered here."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, Tag, model_validator
from pydantic_core import PydanticCustomError

import ratchet_problems
from ratchet_kit.errors import invalid
from ratchet_policies import ChatPrompt, Prompt, Sampling, TextPrompt, TokenPrompt
from ratchet_sessions.doors.numbers import Number, Whole, WholeKey
from ratchet_sessions.doors.openai_tools import Call, OfferedTools, ToolChoice, to_tools
from ratchet_sessions.doors.parameters import refuse_unsupported
from ratchet_sessions.doors.texts import A_LIST, A_TEXT, TEXT_OR_LIST, Schema, Text, text_only

IGNORED = frozenset(
    (
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "verbosity",
    )
)
"""Parameters of OpenAI's that change no answer, whatever their value: hints for its caches, its tiers, its books, and
for models that think by degrees."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "prediction": (),
    "store": (False,),
    "web_search_options": (),
}
"""Parameters of OpenAI's that are not offered, each with the values that change nothing."""
MAX_CHOICES = 64
MAX_PROMPTS = 128
MAX_TOP_LOGPROBS = 20
MAX_BIASED = 1024
MAX_STOPS = 64
MAX_MESSAGES = 10_000
MAX_PARTS = 1_000
"""Parts of one message."""
MAX_CALLS = 128
"""Tool calls of one message."""
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


def _few(value: Any) -> Any:
    """Before any of it is looked at: pydantic would first find the faults of all."""
    if isinstance(value, dict) and len(value) > MAX_BIASED:
        raise PydanticCustomError("too_long", "must have at most {most} tokens", {"most": MAX_BIASED})
    return value


BiasedId = Annotated[WholeKey, Field(le=MAX_INT32)]
Biases = Annotated[dict[BiasedId, Annotated[Number, Field(ge=-100, le=100)]], BeforeValidator(_few)]
TokenId = Annotated[int, Field(ge=0, le=MAX_INT32, strict=True)]
_PROMPTS = Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    include_usage: StrictBool = False
    include_obfuscation: StrictBool = Field(default=False, description="Ignored.")


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: Text
    temperature: Number | None = Field(default=None, ge=0, le=2)
    top_p: Number | None = Field(default=None, gt=0, le=1)
    top_k: Whole | None = Field(default=None, ge=0, le=MAX_INT32, description="Not OpenAI's; 0 is off.")
    min_p: Number | None = Field(default=None, ge=0, le=1, description="Not OpenAI's; 0 is off.")
    n: Whole | None = Field(default=None, ge=1, le=MAX_CHOICES)
    presence_penalty: Number | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(default=None, ge=-2, le=2)
    logit_bias: Biases | None = None
    stop: Text | Annotated[list[Text], Field(max_length=MAX_STOPS, fail_fast=True)] | None = None
    seed: Whole | None = Field(default=None, ge=-MAX_INT64 - 1, le=MAX_INT64)
    max_tokens: Whole | None = Field(default=None, ge=1, le=MAX_INT32)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = Field(default=None, description="During a release, one user stays with one version.")

    def refuse_unsupported(self) -> None:
        """Raises InvalidArgument that names the first parameter that is not offered."""
        refuse_unsupported(self.model_extra, IGNORED, NEUTRAL)

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def _sampling(
        self,
        max_tokens: int | None,
        top_logprobs: int | None,
        json_schema: Mapping[str, Any] | None = None,
        echo: bool = False,
    ) -> Sampling:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k or None,
            max_tokens=max_tokens,
            stop=tuple(stop),
            seed=self.seed,
            n=self.n or 1,
            top_logprobs=top_logprobs,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=self.logit_bias or {},
            json_schema=None if json_schema is None else json.dumps(json_schema),
            echo=echo,
            min_p=self.min_p or None,
            must_fit=True,
        )


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: Text
    prompt_cache_breakpoint: dict[str, Any] | None = Field(default=None, description="Ignored.")


Content: TypeAlias = Annotated[
    Annotated[Text, Tag(A_TEXT)]
    | Annotated[list[Annotated[TextPart, text_only("text")]], Field(max_length=MAX_PARTS, fail_fast=True), Tag(A_LIST)],
    TEXT_OR_LIST,
]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[Call], Field(max_length=MAX_CALLS, fail_fast=True)] | None = None
    tool_call_id: Text | None = None
    # Clients send answers back as they came, or as their own types write them.
    refusal: None = None
    function_call: None = None
    audio: None = None
    annotations: list[Any] | None = Field(default=None, max_length=0)
    reasoning_content: Text | None = Field(default=None, description="Ignored: an answer's thoughts.")
    reasoning: Text | None = Field(default=None, description="Ignored, as vLLM writes them.")
    parsed: Any = Field(default=None, description="OpenAI's client's. Ignored.")
    provider_specific_fields: dict[str, Any] | None = Field(default=None, description="LiteLLM's. Ignored.")

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.content is None and not self.tool_calls:
            raise ValueError("content is required, except beside an assistant's tool_calls")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant has tool_calls")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("tool_call_id is required for a tool, and only there")
        return self

    def to_chat(self) -> ratchet_problems.Message:
        """OpenAI's newer role "developer" is "system" in chat templates."""
        role = "system" if self.role == "developer" else self.role
        parts = [self.content or ""] if not isinstance(self.content, list) else [part.text for part in self.content]
        calls = tuple(call.to_chat() for call in self.tool_calls or ())
        return ratchet_problems.Message(role, "".join(parts), calls, self.tool_call_id or "")


class TextFormat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "json_object"]

    @property
    def json_schema_of_text(self) -> Mapping[str, Any] | None:
        return {"type": "object"} if self.type == "json_object" else None


class NamedSchema(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    name: str
    description: str | None = None
    schema_: Schema = Field(default_factory=dict, alias="schema")
    strict: StrictBool | None = Field(default=None, description="The schema is always followed.")


class SchemaFormat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["json_schema"]
    json_schema: NamedSchema

    @property
    def json_schema_of_text(self) -> Mapping[str, Any] | None:
        return self.json_schema.schema_


class ChatRequest(_Request):
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    max_completion_tokens: Whole | None = Field(default=None, ge=1, le=MAX_INT32)
    logprobs: StrictBool | None = None
    top_logprobs: Whole | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    response_format: Annotated[TextFormat | SchemaFormat, Field(discriminator="type")] | None = None
    tools: OfferedTools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = Field(default=None, description="False: at most one call.")

    def prompts(self) -> Sequence[Prompt]:
        tools = to_tools(self.tools or [], self.tool_choice, self.parallel_tool_calls)
        return [ChatPrompt(tuple(message.to_chat() for message in self.messages), tools)]

    def sampling(self) -> Sampling:
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs", "needs logprobs: true")
        wanted = self.response_format.json_schema_of_text if self.response_format else None
        top = self.top_logprobs or 0
        return self._sampling(self.max_completion_tokens or self.max_tokens, top if self.logprobs else None, wanted)


class TextRequest(_Request):
    prompt: Text | TokenIds | Annotated[list[Text], _PROMPTS] | Annotated[list[TokenIds], _PROMPTS]
    max_tokens: Whole | None = Field(default=None, ge=0, le=MAX_INT32, description="0 is for an echo alone.")
    logprobs: Whole | None = Field(default=None, ge=0, le=MAX_TOP_LOGPROBS)
    echo: StrictBool | None = None
    suffix: Text | None = Field(default=None, description="Comes after the gap that the model fills.")

    def prompts(self) -> Sequence[Prompt]:
        return [self._prompt(one) for one in self._each()]

    def sampling(self) -> Sampling:
        if self.suffix and self.echo:
            raise invalid("echo", "cannot be had with a suffix")
        if self.max_tokens == 0 and not self.echo:
            raise invalid("max_tokens", "must be at least 1; only an echo may have 0")
        return self._sampling(self.max_tokens, self.logprobs, echo=bool(self.echo))

    def _each(self) -> Sequence[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        return [self.prompt] if isinstance(self.prompt[0], int) else self.prompt

    def _prompt(self, one: str | list[int]) -> Prompt:
        if isinstance(one, str):
            return TextPrompt(one, self.suffix or "")
        if self.suffix:
            raise invalid("suffix", "needs a prompt of text: token ids hold the model's own tokens for a gap")
        return TokenPrompt(tuple(one))
