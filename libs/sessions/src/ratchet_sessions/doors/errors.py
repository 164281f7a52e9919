"""The one table from errors to HTTP, and the three bodies that carry them: Ratchet's, OpenAI's and Anthropic's."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ratchet_kit import errors
from ratchet_kit.grpc_errors import INTERNAL_TEXT, code_of
from ratchet_kit.logs import get_logger
from ratchet_kit.text import clip, without_machines, without_paths
from ratchet_policies import is_over_length

log = get_logger(__name__)

OPENAI_PREFIX = "/v1/"
ANTHROPIC_PREFIX = "/v1/messages"
RESPONSES_PREFIX = "/v1/responses"
RETRY_AFTER_SECONDS = 5
PLATFORMS = (errors.Unavailable, errors.DeadlineExceeded, errors.DataLoss)
"""Whose texts come from within the platform."""
MOST_BYTES = 2048
"""Of a text in an error, which may quote what the caller sent."""
MOST_VIOLATIONS = 100


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an error is over HTTP: its status, and OpenAI's `type` and `code` for it."""

    status: int
    openai_type: str = "invalid_request_error"
    openai_code: str | None = None


MEANINGS: Mapping[type[errors.RatchetError], Meaning] = {
    errors.InvalidArgument: Meaning(400),
    errors.Unauthenticated: Meaning(401, "authentication_error", "invalid_api_key"),
    errors.PermissionDenied: Meaning(403, "permission_error", "insufficient_scope"),
    errors.NotFound: Meaning(404, openai_code="model_not_found"),
    errors.AlreadyExists: Meaning(409),
    errors.FailedPrecondition: Meaning(409, openai_code="failed_precondition"),
    errors.Aborted: Meaning(409),
    errors.ResourceExhausted: Meaning(429, "rate_limit_error", "rate_limit_exceeded"),
    errors.Cancelled: Meaning(499, "server_error", "cancelled"),
    errors.Internal: Meaning(500, "server_error"),
    errors.DataLoss: Meaning(500, "server_error", "data_loss"),
    errors.Unimplemented: Meaning(400),  # a language that no node has, say: no fault of ours, and no retry helps
    errors.Unavailable: Meaning(503, "server_error", "unavailable"),
    errors.DeadlineExceeded: Meaning(504, "server_error", "timeout"),
}


ANTHROPIC_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""By status; another is api_error from 500 on, else invalid_request_error."""
ANTHROPIC_TOO_LONG = "prompt is too long: "
"""Clients look for it, and make their conversation shorter."""
OFFERED = "Here are /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages and /v1/models"
ELSEWHERE: Mapping[str, str] = {
    "embeddings": ": the models here write text and make no embeddings",
    "images": ": the models here write text and make no images",
    "audio": ": the models here write text and make no sound",
    "moderations": ": the models here write text and judge none",
    "fine_tuning": ": models are trained by `ratchet train`, or at /api/v1/runs",
    "files": ": no files are kept; data sets are at /api/v1/datasets",
    "batches": ": send the requests one by one, or many prompts in one to /v1/completions",
    "responses": ": answers are not kept, so there is none to read, to go on from or to cancel",
    "messages": ": of messages there are the answer and count_tokens",
}
"""Endpoints that clients try, by their first part, each with why it is not here."""
PARAMS: Mapping[str, str] = {
    "prompt.chat.tools": "tools",
    "prompt.chat": "messages",
    "prompt.suffix": "suffix",
    "prompt.text": "prompt",
    "prompt.tokens": "prompt",
    "sampling.json_schema": "response_format",
}
"""OpenAI's parameters by the fields of rollout-service that they become."""


RESPONSES_PARAMS = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text"}
NOT_HERE = "is not supported here"


class UnsupportedParameter(errors.InvalidArgument):
    """A parameter of an API that is spoken here, which this gateway does not offer."""

    def __init__(self, name: str, reason: str = NOT_HERE) -> None:
        super().__init__(f"Unsupported parameter: {name} {reason}.", [errors.FieldViolation(name, reason)])


class UnknownUrl(errors.NotFound):
    """There is no such path."""


def for_strangers(error: errors.RatchetError) -> errors.RatchetError:
    """The same error; of one of the platform's the text names no machine and no file of it."""
    if isinstance(error, PLATFORMS):
        return type(error)(without_paths(without_machines(error.message)))
    return error


def meaning_of(error: errors.RatchetError) -> Meaning:
    """That of the error's class, or of its nearest base in the table."""
    return next(MEANINGS[base] for base in (*type(error).__mro__, errors.Internal) if base in MEANINGS)


def message_of(error: errors.RatchetError) -> str:
    if isinstance(error, errors.Internal):
        return INTERNAL_TEXT
    return clip(for_strangers(error).message, MOST_BYTES)


def error_body(error: errors.RatchetError) -> dict[str, Any]:
    """{"error": {code, message, violations}}: the code is gRPC's name for it."""
    body: dict[str, Any] = {"code": code_of(error).name, "message": message_of(error)}
    if isinstance(error, errors.InvalidArgument):
        body["violations"] = [
            {"field": clip(v.field, MOST_BYTES), "description": clip(v.description, MOST_BYTES)}
            for v in error.violations[:MOST_VIOLATIONS]
        ]
    return {"error": body}


def _param(field: str) -> str:
    """OpenAI's name of what the services behind this door name by their messages."""
    known = next((param for place, param in PARAMS.items() if field.startswith(place)), None)
    return known or field.removeprefix("sampling.")


def openai_error_body(error: errors.RatchetError, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """https://platform.openai.com/docs/guides/error-codes. `names`: an API's own names of completions' parameters."""
    meaning = meaning_of(error)
    param, code = None, meaning.openai_code
    match error:
        case UnknownUrl():
            code = "unknown_url"
        case errors.NotFound():
            param = "model"
        case errors.InvalidArgument(violations=(first, *_)):
            param = _param(first.field)
            param = (names or {}).get(param, param)
            if isinstance(error, UnsupportedParameter):
                code = "unsupported_parameter"
            elif is_over_length(first.description):
                code = "context_length_exceeded"
    return {"error": {"message": message_of(error), "type": meaning.openai_type, "param": param, "code": code}}


def anthropic_error_body(error: errors.RatchetError, status: int = 0) -> dict[str, Any]:
    """https://docs.anthropic.com/en/api/errors. `status`: that of the answer; 0: the error's own."""
    status = status or meaning_of(error).status
    kind = ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    message = message_of(error)
    if isinstance(error, errors.InvalidArgument) and any(_is_long_prompt(v) for v in error.violations):
        message = ANTHROPIC_TOO_LONG + message
    return {"type": "error", "error": {"type": kind, "message": message}}


def _is_long_prompt(violation: errors.FieldViolation) -> bool:
    return violation.field.startswith("prompt") and is_over_length(violation.description)


def _body(request: Request, error: errors.RatchetError, status: int) -> dict[str, Any]:
    """In the shape of the API that was called."""
    if request.url.path.startswith(ANTHROPIC_PREFIX):
        return anthropic_error_body(error, status)
    if request.url.path.startswith(RESPONSES_PREFIX):
        return openai_error_body(error, RESPONSES_PARAMS)
    return openai_error_body(error) if request.url.path.startswith(OPENAI_PREFIX) else error_body(error)


def to_response(request: Request, error: errors.RatchetError) -> JSONResponse:
    status = meaning_of(error).status
    if status == 500:
        log.error("request.failed", path=request.url.path, reason=error.message, exc_info=error)
    elif status > 500:
        log.warning("request.unavailable", path=request.url.path, reason=error.message)
    headers = {}
    if isinstance(error, errors.Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.Unavailable):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if isinstance(error, errors.ResourceExhausted):
        wait = error.retry_after.total_seconds() if error.retry_after else RETRY_AFTER_SECONDS
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return JSONResponse(_body(request, error, status), status, headers)


def http_response(request: Request, error: HTTPException) -> JSONResponse:
    """For what is wrong with a request as one of HTTP: its path, its method, its size."""
    kinds: Mapping[int, type[errors.RatchetError]] = {404: UnknownUrl, 405: errors.Unimplemented}
    kind = kinds.get(error.status_code, errors.InvalidArgument)
    meant = kind(f"{request.method} {request.url.path}: {said_of(request, error)}")
    return JSONResponse(_body(request, meant, error.status_code), error.status_code, error.headers)


def said_of(request: Request, error: HTTPException) -> str:
    """Names, for an endpoint below /v1 that there is not, those that there are."""
    path = request.url.path
    if error.status_code != 404 or not path.startswith(OPENAI_PREFIX):
        return str(error.detail)
    known = next((text for end, text in ELSEWHERE.items() if path.removeprefix(OPENAI_PREFIX).startswith(end)), "")
    return f"there is no such endpoint{known}. {OFFERED}"


async def answered(request: Request, answer: Callable[[], Awaitable[Response]]) -> Response:
    """The answer, or its error in the shape of the API that was called."""
    try:
        return await answer()
    except errors.RatchetError as error:
        return to_response(request, error)
    except HTTPException as error:
        return http_response(request, error)
    except ClientDisconnect:
        return to_response(request, gone())
    except Exception as error:  # noqa: BLE001 (logged and answered there)
        return to_response(request, errors.Internal(f"{type(error).__name__}: {error}"))


def gone() -> errors.Cancelled:
    """Who leaves amid the body is no fault of ours: nothing for the log, no 5xx in the metrics."""
    return errors.Cancelled("the caller has gone")


def invalid_body(faults: Iterable[tuple[Iterable[object], str]]) -> errors.InvalidArgument:
    """Of what pydantic says: where, and what. Of a union it names each type, "list[str]", which is not a field."""
    named = [(".".join(str(part) for part in place if "[" not in str(part)), text) for place, text in faults]
    violations = [errors.FieldViolation(name or "body", text) for name, text in named]
    message = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return errors.InvalidArgument(message, violations)
