"""Around every call that a server answers: ids, metrics and a log line, errors, a deadline."""

import asyncio
import hmac
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from ratchet_kit import errors, grpc_errors, ids, logs, metrics, service_auth
from ratchet_kit.client import METADATA_OF
from ratchet_kit.held import Held, Share
from ratchet_protos.access import TOKEN_HEADER

log = logs.get_logger(__name__)

OPEN = ("/grpc.health.", "/grpc.reflection.")
"""How the methods begin that everybody may call, and of which the log says nothing."""
MAX_OPEN_STREAMS = 64
MAX_OPEN_CALLS = 1024
_CODE_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
_handled = metrics.counter("grpc_server_handled", "Calls answered, by method and code", ("method", "code"))
_seconds = metrics.histogram("grpc_server_seconds", "Time from a call's arrival to its end", ("method",))
_in_flight = metrics.gauge("grpc_server_in_flight", "Calls being answered now", ("method",))


@dataclass(frozen=True, slots=True)
class Call:
    """One call that is being answered."""

    method: str
    streams_reply: bool
    context: Any
    """A `grpc.aio.ServicerContext`."""


Wrapper: TypeAlias = Callable[[Call], AbstractAsyncContextManager[None]]
"""Runs before and after a call. It may end the call by `context.abort`, and lets every other exception pass."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Puts `wrappers`, the first outermost, and a deadline around every handler of the four kinds of RPC.

    It reads the messages, too, inside all of these: gRPC itself would wait for the request of a stranger, for good, and
    answers INTERNAL to bytes that are no message, which is the caller's fault.
    So what `context.read()` gives is bytes; a handler takes its requests from its first argument.

    `deadline` is for a call whose client sent none; `stream_deadline` where the reply is a stream. `held`: what all
    requests hold; of a stream of them the one that was read last.
    """

    def __init__(
        self, wrappers: Sequence[Wrapper], deadline: timedelta, stream_deadline: timedelta, held: Held
    ) -> None:
        self._held = held
        self._wrappers = tuple(wrappers)
        self._deadline = deadline.total_seconds()
        self._stream_deadline = stream_deadline.total_seconds()

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        parse = handler.request_deserializer or _as_it_is
        read = partial(_all_of, parse) if handler.request_streaming else partial(_one_of, parse)
        coders = {"request_deserializer": None, "response_serializer": handler.response_serializer}
        if handler.response_streaming:
            behaviour = handler.stream_stream or handler.unary_stream
            return grpc.stream_stream_rpc_method_handler(self._streaming(method, read, behaviour), **coders)
        behaviour = handler.stream_unary or handler.unary_unary
        return grpc.stream_unary_rpc_method_handler(self._single(method, read, behaviour), **coders)

    def _single(self, method: str, read: Callable[[Any, Share], Any], behaviour: Any) -> Any:
        async def answer(requests: Any, context: Any) -> Any:
            async with self._observed(Call(method, False, context)) as share:
                async with asyncio.timeout_at(self._end(context, self._deadline)):
                    return await behaviour(await read(requests, share), context)

        return answer

    def _streaming(self, method: str, read: Callable[[Any, Share], Any], behaviour: Any) -> Any:
        async def answer(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._observed(Call(method, True, context)) as share:
                end = self._end(context, self._stream_deadline)
                async with asyncio.timeout_at(end):
                    replies = behaviour(await read(requests, share), context)
                if not hasattr(replies, "__aiter__"):  # a coroutine that sends by context.write
                    async with asyncio.timeout_at(end):
                        await replies
                    return
                try:
                    while True:
                        async with asyncio.timeout_at(end):
                            reply = await anext(replies, _END)
                        if reply is _END:
                            return
                        yield reply
                finally:
                    await replies.aclose()

        return answer

    @asynccontextmanager
    async def _observed(self, call: Call) -> AsyncIterator[Share]:
        async with AsyncExitStack() as stack:
            for wrap in self._wrappers:
                await stack.enter_async_context(wrap(call))
            yield stack.enter_context(self._held.one())

    def _end(self, context: Any, default: float) -> float | None:
        """The loop time at which the call has to end; None where gRPC itself holds the client's deadline."""
        if context.time_remaining() is not None:
            return None
        return asyncio.get_running_loop().time() + default


_END = object()


def _as_it_is(data: bytes) -> bytes:
    return data


def _message(parse: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return parse(data)
    except (DecodeError, UnicodeDecodeError) as error:  # the second: protobuf without its C library
        raise errors.InvalidArgument(
            f"the request is not the message that this method takes, or a text in it is not UTF-8: {error}"
        ) from error


async def _one_of(parse: Callable[[bytes], Any], raw: AsyncGenerator[bytes], share: Share) -> Any:
    """The request of a call that has one."""
    try:
        data = await share.read(raw)
    except StopAsyncIteration:
        raise errors.InvalidArgument("the call has no request") from None
    finally:
        await aiter(raw).aclose()  # type: ignore[attr-defined]  # a generator, which would keep the bytes
    return _message(parse, data)


async def _all_of(parse: Callable[[bytes], Any], raw: AsyncIterator[bytes], share: Share) -> "_Messages":
    return _Messages(parse, raw, share)


class _Messages:
    """The messages of a request stream. No generator: one that is being read can't be closed.

    The first may be refused for what others hold; a stream that has begun goes on.
    """

    def __init__(self, parse: Callable[[bytes], Any], raw: AsyncIterator[bytes], share: Share) -> None:
        self._parse = parse
        self._raw = raw
        self._share = share
        self._began = False

    def __aiter__(self) -> "_Messages":
        return self

    async def __anext__(self) -> Any:
        data = await (self._share.read_on(self._raw) if self._began else self._share.read(self._raw))
        self._began = True
        return _message(self._parse, data)


@asynccontextmanager
async def with_ids(call: Call) -> AsyncIterator[None]:
    """Binds the caller's request id, or a new one, and its run id to the log lines and calls made for this call."""
    sent = dict(call.context.invocation_metadata() or ())
    bound = {name: ids.passed_on(str(sent.get(key, ""))) for name, key in METADATA_OF.items()}
    logs.bind(
        **{"request_id": ids.new_id("req")} | {name: id for name, id in bound.items() if id}
    )  # the call has a task, so a context, of its own
    yield


@asynccontextmanager
async def with_metrics(call: Call) -> AsyncIterator[None]:
    """Counts the call, its code and its time, and writes one line about it to the log."""
    start = time.perf_counter()
    _in_flight.labels(call.method).inc()
    code = "OK"
    try:
        yield
        code = _code_name(call.context.code(), grpc.StatusCode.OK)
    except (asyncio.CancelledError, GeneratorExit):
        code = "CANCELLED"
        raise
    except BaseException:
        code = _code_name(call.context.code(), grpc.StatusCode.UNKNOWN)
        raise
    finally:
        seconds = time.perf_counter() - start
        _in_flight.labels(call.method).dec()
        _handled.labels(call.method, code).inc()
        _seconds.labels(call.method).observe(seconds)
        if not call.method.startswith(OPEN):
            log.debug("call.answered", method=call.method, code=code, seconds=round(seconds, 6))


@asynccontextmanager
async def with_errors(call: Call) -> AsyncIterator[None]:
    """Turns what a handler raises into a status; what is not of our errors is INTERNAL, and its trace is logged."""
    try:
        yield
    except errors.RatchetError as error:
        if grpc_errors.code_of(error) is grpc.StatusCode.INTERNAL:
            log.exception("call.failed", method=call.method)
        await _abort(call, error)
    except TimeoutError:
        await _abort(call, errors.DeadlineExceeded(f"{call.method} took longer than the server allows"))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the client went away, or the server stops: gRPC ends the call
        await _abort(call, errors.Cancelled("the server cancelled the work"))
    except grpc.aio.AbortError:
        raise
    except grpc.RpcError as error:
        # A call to another service that nobody translated. That service's fault is ours towards this caller.
        log.exception("call.failed_elsewhere", method=call.method)
        meant = grpc_errors.from_rpc_error(error)
        await _abort(call, meant if isinstance(meant, errors.Unavailable) else errors.Internal(meant.message))
    except Exception:
        log.exception("call.failed", method=call.method)
        await _abort(call, errors.Internal("unhandled"))


def _code_name(code: grpc.StatusCode | int | None, unset: grpc.StatusCode) -> str:
    """The name of what a context gives as its code: 0 until one is set, then what was set."""
    if isinstance(code, grpc.StatusCode):
        return str(code.name)
    return _CODE_NAMES.get(code, "UNKNOWN") if code else str(unset.name)


async def _abort(call: Call, error: errors.RatchetError) -> None:
    status = grpc_errors.to_status(error)
    call.context.set_code(status.code)  # abort alone does not keep it for `with_metrics`
    await call.context.abort(status.code, status.message, status.trailers)


def actor() -> str:
    """Who asked for the present call: the id of an API key, as the gateway says. Empty: a service did."""
    return str(logs.context().get("actor", ""))


def token_check(digests: Callable[[], Sequence[str]]) -> Wrapper:
    """Lets a call in whose token has one of these digests (`expected_digests` of service_auth); health and reflection
    without."""

    @asynccontextmanager
    async def wrap(call: Call) -> AsyncIterator[None]:
        if not call.method.startswith(OPEN):
            sent = dict(call.context.invocation_metadata() or ()).get(TOKEN_HEADER, "")
            digest = service_auth.digest_of(str(sent))
            if not any(hmac.compare_digest(digest, one) for one in digests()):
                raise errors.Unauthenticated(
                    f"a call of this service carries the services' token ({service_auth.TOKEN})"
                )
        yield

    return wrap


def few_open_calls() -> Wrapper:
    """For one server. What everybody may call is under way so often at most: else a stranger's calls, which may last or
    send no request, take the room that the server has for all."""
    under_way = {True: 0, False: 0}

    @asynccontextmanager
    async def wrap(call: Call) -> AsyncIterator[None]:
        if not call.method.startswith(OPEN):
            yield
            return
        most = MAX_OPEN_STREAMS if call.streams_reply else MAX_OPEN_CALLS
        if under_way[call.streams_reply] >= most:
            raise errors.ResourceExhausted(f"{most} calls of health and reflection are under way")
        under_way[call.streams_reply] += 1
        try:
            yield
        finally:
            under_way[call.streams_reply] -= 1

    return wrap


SERVICE: tuple[Wrapper, ...] = (with_ids, with_metrics, with_errors)
"""What every service puts around its calls."""
