"""The shapes of OpenAI's API (https://platform.openai.com/docs/api-reference), as far as they are offered here."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

import ratchet_problems
from gateway_service.rest.errors import UnsupportedParameter
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_policies import Sampling

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "metadata": ({},),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
"""Parameters of OpenAI's that are not offered, each with the values that change nothing."""
MAX_CHOICES = 64
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


def _encodable(text: str) -> str:
    """JSON may hold half a surrogate pair, which is no text: nothing behind this door can be sent it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must not hold an unpaired surrogate") from error
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool = False


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=MAX_INT32, description="Not OpenAI's; 0 is off.")
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    stop: Text | list[Text] | None = None
    seed: int | None = Field(default=None, ge=-MAX_INT64 - 1, le=MAX_INT64)
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = Field(default=None, description="During a release, one user stays with one version.")

    def refuse_unsupported(self) -> None:
        """Raises InvalidArgument that names the first parameter that is not offered."""
        for name, value in (self.model_extra or {}).items():
            if name not in NEUTRAL:
                text = f"Unrecognized request argument supplied: {name}"
                raise InvalidArgument(text, [FieldViolation(name, "is not known")])
            if value is not None and value not in NEUTRAL[name]:
                raise UnsupportedParameter(name)

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def _sampling(self, max_tokens: int | None, logprobs: bool) -> Sampling:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k or None,
            max_tokens=max_tokens,
            stop=tuple(stop),
            seed=self.seed,
            logprobs=logprobs,
            n=self.n or 1,
        )


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: Text


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]
    name: str | None = None

    def to_chat(self) -> ratchet_problems.Message:
        """OpenAI's newer role "developer" is "system" in chat templates."""
        role = "system" if self.role == "developer" else self.role
        if isinstance(self.content, str):
            return ratchet_problems.Message(role, self.content)
        return ratchet_problems.Message(role, "".join(part.text for part in self.content))


class ChatRequest(_Request):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    logprobs: bool | None = None

    def sampling(self) -> Sampling:
        return self._sampling(self.max_completion_tokens or self.max_tokens, bool(self.logprobs))


class TextRequest(_Request):
    prompt: Text | list[Text]
    logprobs: int | None = Field(default=None, ge=0)

    def text(self) -> str:
        if isinstance(self.prompt, str):
            return self.prompt
        if len(self.prompt) != 1:
            raise InvalidArgument("one prompt per request", [FieldViolation("prompt", "must be one text")])
        return self.prompt[0]

    def sampling(self) -> Sampling:
        if self.logprobs:
            text = "0 gives the log-probs of the sampled tokens; those of others are not offered"
            raise InvalidArgument(text, [FieldViolation("logprobs", text)])
        return self._sampling(self.max_tokens, self.logprobs is not None)


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TokenLogprob(BaseModel):
    """`token` is "token_id:<id>", as vLLM writes it where the text of single tokens is not known."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[Any] = []


class ChatLogprobs(BaseModel):
    content: list[TokenLogprob]


class TextLogprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: None = None
    text_offset: list[int] = []


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description='The version that answered, "starter@2".')
    system_fingerprint: str = Field(description="The content hash of its weights.")
    choices: list[ChatChoice]
    usage: Usage


class TextChoice(BaseModel):
    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: str


class TextCompletion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "ratchet"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]
