"""The one table between errors and gRPC status codes, and the rich details that travel with a status.

Details are a `google.rpc.Status` in the trailer `grpc-status-details-bin`, as described in
https://grpc.io/docs/guides/error/#richer-error-model: `BadRequest` for violations, `RetryInfo` for `retry_after`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.rpc import code_pb2, error_details_pb2, status_pb2

from ratchet.common.v1 import failure_pb2
from ratchet_kit import addresses, errors, times
from ratchet_kit.text import clip

DETAILS_KEY = "grpc-status-details-bin"
INTERNAL_TEXT = "internal error"
_NO_METHOD = "Method not found!"  # by grpc.aio of a server
_BUSY = "Concurrent RPC limit exceeded!"  # as well
_FORGOTTEN = "Internal error from Core"  # by grpc.aio of this side, not by a server

# gRPC's clients drop a call whose trailers are larger than 8 KiB, and see RESOURCE_EXHAUSTED. The message travels
# percent-encoded (three letters for a byte), and both of these together in base64.
_MESSAGE_BYTES = 800
_DETAILS_BYTES = 2400
_MOMENT = timedelta(seconds=1)

M = TypeVar("M", bound=ProtoMessage)

CODES: dict[type[errors.RatchetError], grpc.StatusCode] = {
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.Unimplemented: grpc.StatusCode.UNIMPLEMENTED,
    errors.Aborted: grpc.StatusCode.ABORTED,
    errors.DataLoss: grpc.StatusCode.DATA_LOSS,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
    errors.Internal: grpc.StatusCode.INTERNAL,
}
_ERRORS = {code: error for error, code in CODES.items()} | {grpc.StatusCode.OUT_OF_RANGE: errors.InvalidArgument}


@dataclass(frozen=True, slots=True)
class Status:
    """What a server sends for an error."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, bytes], ...] = ()


def code_of(error: errors.RatchetError) -> grpc.StatusCode:
    """The status code of an error; a class that is not in the table takes that of its nearest base that is."""
    return next((CODES[base] for base in type(error).__mro__ if base in CODES), grpc.StatusCode.INTERNAL)


def to_status(error: errors.RatchetError) -> Status:
    """The status, with details, that a server sends for `error`. INTERNAL gets a fixed text.

    A long message is cut, and of many violations the first ones are sent.
    """
    code = code_of(error)
    if code is grpc.StatusCode.INTERNAL:
        return Status(code, INTERNAL_TEXT)
    message = clip(error.message, _MESSAGE_BYTES)
    details = _details(error)
    if not details:
        return Status(code, message)
    rich = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        rich.details.add().Pack(detail)
    return Status(code, message, ((DETAILS_KEY, rich.SerializeToString()),))


def from_rpc_error(error: grpc.RpcError) -> errors.RatchetError:
    """The error that a server meant. A code without an entry in the table (UNKNOWN) becomes Internal.

    A server that ends a call while messages are still written to it may have said why: grpc.aio forgets that in a few
    of a hundred such calls, and calls it internal (grpc issue 36066). Asked again, the server says it again.
    """
    code = error.code()
    message = error.details() or code.name
    if code is grpc.StatusCode.INTERNAL and message == _FORGOTTEN:
        return errors.Unavailable("the server ended the call while it was written to, and why is not known: try again")
    if code is grpc.StatusCode.UNIMPLEMENTED and message == _NO_METHOD and addresses.doubted():
        return errors.Unavailable("another service answers at this address: its name is looked up again, try again")
    kind = _ERRORS.get(code, errors.Internal)
    if kind is errors.InvalidArgument:
        return errors.InvalidArgument(message, _violations(error))
    if kind is errors.ResourceExhausted:
        info = _detail(error, error_details_pb2.RetryInfo())
        hint = times.duration_from_proto(info.retry_delay) if info else _MOMENT if message == _BUSY else None
        return errors.ResourceExhausted(message, hint)
    return kind(message)


def failure_to_proto(failure: errors.Failure | None) -> failure_pb2.Failure | None:
    """None stays None, which a message's constructor takes as not set."""
    if failure is None:
        return None
    return failure_pb2.Failure(code=code_pb2.Code.Value(failure.code), message=failure.message)


def failure_from_proto(message: failure_pb2.Failure) -> errors.Failure:
    """Ask `HasField` first. A code that is not known here counts as INTERNAL."""
    known = message.code in code_pb2.Code.values()
    return errors.Failure(code_pb2.Code.Name(message.code) if known else "INTERNAL", message.message)


@contextmanager
def rpc_errors() -> Iterator[None]:
    """Around calls of another service: a `grpc.RpcError` leaves as the RatchetError that the server meant.

    with rpc_errors():
        reply = await stub.GetRun(request)
    """
    try:
        yield
    except grpc.RpcError as error:
        raise from_rpc_error(error) from error


def _details(error: errors.RatchetError) -> Sequence[ProtoMessage]:
    if isinstance(error, errors.InvalidArgument) and error.violations:
        bad = error_details_pb2.BadRequest()
        for v in error.violations:
            field, description = clip(v.field, _MESSAGE_BYTES), clip(v.description, _MESSAGE_BYTES)
            bad.field_violations.add(field=field, description=description)
            if bad.ByteSize() > _DETAILS_BYTES:
                del bad.field_violations[-1]
                break
        return [bad]
    if isinstance(error, errors.ResourceExhausted) and error.retry_after is not None:
        return [error_details_pb2.RetryInfo(retry_delay=times.duration_to_proto(error.retry_after))]
    return []


def _violations(error: grpc.RpcError) -> list[errors.FieldViolation]:
    bad = _detail(error, error_details_pb2.BadRequest())
    return [errors.FieldViolation(v.field, v.description) for v in bad.field_violations] if bad else []


def _detail(error: Any, into: M) -> M | None:
    """The first detail of `into`'s type, or None when the server sent none that can be read."""
    trailers: Iterable[tuple[str, bytes]] = error.trailing_metadata() or ()
    for key, value in trailers:
        if key == DETAILS_KEY:
            try:
                details = status_pb2.Status.FromString(value).details
                return next((into for detail in details if detail.Unpack(into)), None)
            except DecodeError:
                return None
    return None
