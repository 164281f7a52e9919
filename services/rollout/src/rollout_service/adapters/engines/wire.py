"""The messages between the service and an engine process.

They share a Unix socket in a private folder. A connection carries one call: the service sends one message, the engine
replies with one or more and closes. When the service closes first, the call is aborted. A message is its length (four
bytes, big endian) and msgpack.
"""

import asyncio
from typing import Literal, TypeVar

import msgspec

from ratchet_kit.work import Priority
from ratchet_policies import Begun, ChatPrompt, Completion, Echo, Prompt, Sampling, TextPrompt, TokenPrompt, Tools
from ratchet_problems import Message
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import Dtype, Library

_LENGTH_BYTES = 4
_PRIORITIES = {Priority.HIGH: -1, Priority.NORMAL: 0, Priority.LOW: 1}


class EngineSpec(msgspec.Struct, frozen=True):
    """How to start an engine."""

    model: str
    device: Literal["cpu", "cuda"]
    dtype: Dtype
    max_model_len: int | None
    """None: as the config of the model says."""
    max_num_seqs: int
    kv_cache_bytes: int | None
    """None: as much as `gpu_memory_utilization` allows."""
    tensor_parallel_size: int
    gpu_memory_utilization: float
    enforce_eager: bool
    devices: tuple[str, ...] = ()
    """The GPUs that it sees, as CUDA_VISIBLE_DEVICES names them."""
    sleeps: bool = False
    """It can be put to sleep: vLLM has its own way to get memory then."""
    tool_parser: str = ""
    """As vLLM names it. Empty: the model takes no tools."""
    reasoning_parser: str = ""
    """As vLLM names it. Empty: thoughts are text."""


class ForkRequest(msgspec.Struct, frozen=True):
    """Asks the fork server for one engine process."""

    name: str
    spec: EngineSpec
    folder: str
    """Private to the engine and the service: holds their sockets."""
    log_file: str

    @property
    def socket(self) -> str:
        return f"{self.folder}/engine.sock"


class Watch(msgspec.Struct, tag="watch", frozen=True):
    """The reply is `Described`, once the engine is ready. Then come `Beat`s until the engine ends."""


class Generate(msgspec.Struct, tag="generate", frozen=True):
    """The reply is one `Output`; with `stream` there are several, and the last one has `last` set."""

    sampling: Sampling
    stream: bool
    priority: int
    """As vLLM takes it: the smaller goes first."""
    token_ids: tuple[int, ...] | None = None
    text: str | None = None
    messages: tuple[Message, ...] | None = None
    tools: Tools | None = None
    suffix: str = ""
    chat_template: str = ""
    begun: Begun | None = None


class Interrupt(msgspec.Struct, tag="interrupt", frozen=True):
    """The reply is `Interrupted`, once nothing is generated."""


class PrepareChanges(msgspec.Struct, tag="prepare_changes", frozen=True):
    """The reply is `Prepared`."""

    folder: str
    policy_id: str
    """Of the weights in it."""
    base: str
    """Of those that the changes beside them are of."""
    digest: str
    """Of the changes."""


class LoadWeights(msgspec.Struct, tag="load_weights", frozen=True):
    """The reply is `Loaded`."""

    folder: str
    policy_id: str


class SetAsleep(msgspec.Struct, tag="set_asleep", frozen=True):
    """The reply is `AsleepSet`, once it sleeps, or is awake."""

    asleep: bool


class Described(msgspec.Struct, tag="described", frozen=True):
    dtype: Dtype
    max_model_len: int
    has_chat_template: bool
    kv_cache_tokens: int
    library: Library = Library.VLLM


class Beat(msgspec.Struct, tag="beat", frozen=True):
    """The engine's process runs."""

    answers: bool
    """So does what computes: it has answered since the beat before, or takes new weights."""


class Output(msgspec.Struct, tag="output", frozen=True):
    completions: tuple[Completion, ...]
    prompt_token_ids: tuple[int, ...]
    last: bool
    echo: Echo | None = None


class Interrupted(msgspec.Struct, tag="interrupted", frozen=True):
    pass


class AsleepSet(msgspec.Struct, tag="asleep_set", frozen=True):
    pass


class Prepared(msgspec.Struct, tag="prepared", frozen=True):
    obstacle: str
    """Why the changes cannot be applied in place; empty where they can."""


class Loaded(msgspec.Struct, tag="loaded", frozen=True):
    probe_error: float
    in_place: bool


Fault = Literal["invalid_argument", "data_loss", "failed_precondition", "internal"]


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The call failed. `kind` is the error of `ratchet_kit.errors` that the service raises."""

    kind: Fault
    message: str
    field: str = ""
    """For an invalid argument: the field of the public request."""
    library: Library = Library.VLLM
    """The library that did not start."""


Call = Watch | Generate | Interrupt | PrepareChanges | LoadWeights | SetAsleep
Reply = Described | Beat | Output | Interrupted | Prepared | Loaded | AsleepSet | Failed

T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_calls: msgspec.msgpack.Decoder[Call] = msgspec.msgpack.Decoder(Call)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def generate_call(request: GenerationRequest, stream: bool) -> Generate:
    priority = _PRIORITIES[request.priority]
    match request.prompt:
        case TokenPrompt(ids):
            return Generate(request.sampling, stream, priority, token_ids=tuple(ids))
        case TextPrompt(text, suffix):
            return Generate(request.sampling, stream, priority, text=text, suffix=suffix)
        case ChatPrompt(messages, tools, template, begun):
            return Generate(
                *(request.sampling, stream, priority),
                messages=messages,
                tools=tools,
                chat_template=template,
                begun=begun,
            )


def prompt_of(call: Generate) -> Prompt:
    if call.token_ids is not None:
        return TokenPrompt(call.token_ids)
    if call.messages is not None:
        return ChatPrompt(call.messages, call.tools, call.chat_template, call.begun)
    return TextPrompt(call.text or "", call.suffix)


def output_of(reply: Output) -> EngineOutput:
    return EngineOutput(reply.completions, reply.prompt_token_ids, reply.echo)


async def send(writer: asyncio.StreamWriter, message: Call | Reply) -> None:
    body = _encoder.encode(message)
    writer.write(len(body).to_bytes(_LENGTH_BYTES) + body)
    await writer.drain()


async def receive_call(reader: asyncio.StreamReader) -> Call:
    """Raises IncompleteReadError when the connection ends first, as `receive_reply` does."""
    return _calls.decode(await _receive(reader))


async def receive_reply(reader: asyncio.StreamReader) -> Reply:
    return _replies.decode(await _receive(reader))


async def _receive(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    return await reader.readexactly(length)


def encode_fork_request(request: ForkRequest) -> bytes:
    """As JSON, in one line."""
    return msgspec.json.encode(request)


def decode_fork_request(line: bytes) -> ForkRequest:
    return msgspec.json.decode(line, type=ForkRequest)
