"""The HTTP application: its routes and their errors.

What a client must not take for the program's fault is 504: verl's client tries again after that status alone, and
scores anything else as a wrong answer; the client of PyPI tries again after whatever isn't 200.
"""

import math
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ratchet_kit import errors, metrics
from ratchet_kit.held import Held, Share
from ratchet_kit.http_server import while_connected
from ratchet_kit.logs import get_logger
from ratchet_kit.text import encodable
from sandbox_service.fusion import running, submitting
from sandbox_service.fusion.datasets import DATASETS
from sandbox_service.fusion.row_folder import RowFolder
from sandbox_service.fusion.running import Runner
from sandbox_service.fusion.shapes import EvalResult, RunCodeRequest, RunCodeResponse, RunStatus, SubmitRequest

log = get_logger(__name__)

# 16 MiB of files in base64, and the texts.
MAX_BODY_BYTES = 32 << 20
RETRY_AFTER_SECONDS = 1
_STATUSES: Mapping[type[errors.RatchetError], int] = {
    errors.InvalidArgument: 422,
    errors.NotFound: 404,
    errors.FailedPrecondition: 400,
    errors.Unimplemented: 501,
    errors.ResourceExhausted: 504,
    errors.Unavailable: 504,
    errors.DeadlineExceeded: 504,
}
# What a field of our request is called in theirs.
_FIELDS = {
    "program.source": "code",
    "program.stdin": "stdin",
    "program.limits.cpu_time": "run_timeout",
    "program.limits.memory_bytes": "memory_limit_MB",
    "program.language": "language",
}
_UNOFFERED = ("/run_jupyter", "/get_prompts", "/get_prompt_by_id", "/list_ids", "/get_metrics", "/get_metrics_function")
_T = TypeVar("_T")

_answers = metrics.counter("sandbox_http_answers", "Answers to SandboxFusion's clients", ["route", "status"])


def build(runner: Runner, rows: RowFolder, held: Held) -> FastAPI:
    """`held`: what the bodies of all requests hold."""
    app = FastAPI(title="Ratchet sandbox, for clients of SandboxFusion", version="1", redoc_url=None)
    app.add_middleware(BodyLimit, held=held)
    _install_errors(app)

    @app.get("/v1/ping")
    async def ping() -> str:
        return "pong"

    # the limits and the program itself are checked in `running`, and an answer of ours needs no second look
    @app.post("/run_code", response_model=RunCodeResponse, responses=_WRONG)
    async def run_code(request: Request, body: RunCodeRequest) -> RunCodeResponse:
        try:
            program = running.program_of(body, runner)
            patience = running.patience(body.compile_timeout, body.run_timeout)
            return running.response(await _while_connected(request, runner.run(program, patience)))
        except errors.Unimplemented as error:
            # SandboxFusion's own answer for what it can't run; its text reaches the users of both clients
            return RunCodeResponse(status=RunStatus.SANDBOX_ERROR, message=error.message)

    @app.post("/submit", response_model=EvalResult, responses=_WRONG)
    async def submit(request: Request, body: SubmitRequest) -> EvalResult:
        return await _while_connected(request, submitting.submit(body, runner, rows))

    @app.get("/list_datasets")
    async def list_datasets() -> list[str]:
        return sorted({*DATASETS, *rows.names()})

    for path in _UNOFFERED:
        app.add_api_route(path, _unoffered, methods=["POST"], status_code=501, include_in_schema=False)
    return app


_WRONG: dict[int | str, dict[str, Any]] = {
    400: {"description": "The body cannot be read, or needs something that is not set up here"},
    404: {"description": "No such row"},
    413: {"description": f"More than {MAX_BODY_BYTES >> 20} MiB"},
    501: {"description": "Not offered here"},
    504: {"description": "The platform's fault, or a full queue: try again"},
}


async def _unoffered(request: Request) -> None:
    raise errors.Unimplemented(
        f"{request.url.path} is not offered: this is Ratchet's sandbox, which has /run_code, /submit and /v1/ping"
    )


async def _while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """A program is killed when its caller has gone. Raises Cancelled then."""
    running.CALLER.set(request.client.host if request.client else "")
    return await while_connected(request.receive, work)


def _install_errors(app: FastAPI) -> None:
    """Every error is {"detail": ...}, as FastAPI's own are there; one about fields names each."""

    @app.exception_handler(errors.RatchetError)
    async def ratchet_error(request: Request, error: errors.RatchetError) -> JSONResponse:
        status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 500)
        if isinstance(error, errors.Cancelled):
            return JSONResponse({"detail": error.message}, 499)
        if status == 500:
            log.error("request.failed", path=request.url.path, reason=error.message, exc_info=error)
            return JSONResponse({"detail": "internal error"}, 500)
        if isinstance(error, errors.InvalidArgument) and error.violations:
            faults = [_fault(["body", *_path(v.field)], v.description) for v in error.violations]
            return JSONResponse({"detail": faults}, status)
        headers = {}
        if status == 504:
            wait = getattr(error, "retry_after", None)
            headers["Retry-After"] = str(max(RETRY_AFTER_SECONDS, math.ceil(wait.total_seconds()) if wait else 0))
        return JSONResponse({"detail": error.message}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # without the input, which may be what can't be sent
        faults = [_fault([encodable(str(part)) for part in fault["loc"]], fault["msg"]) for fault in error.errors()]
        return JSONResponse({"detail": faults}, 422)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("request.failed", path=request.url.path, reason=repr(error), exc_info=error)
        return JSONResponse({"detail": "internal error"}, 500)


def _fault(path: list[str], text: str) -> dict[str, Any]:
    return {"loc": path, "msg": encodable(text), "type": "value_error"}


def _path(field: str) -> list[str]:
    return encodable(_FIELDS.get(field, field.removeprefix("program."))).split(".")


class BodyLimit:
    """ASGI middleware: bounds the body, and all that are held together, and counts the answers."""

    def __init__(self, app: ASGIApp, held: Held) -> None:
        self._app = app
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._held.one() as share:
            await self._bounded(scope, receive, send, share)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, share: Share) -> None:
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MAX_BODY_BYTES:
                raise HTTPException(413, f"the body is longer than {MAX_BODY_BYTES >> 20} MiB")
            try:
                share.demand(taken)
            except errors.ResourceExhausted as error:
                raise HTTPException(504, error.message, {"Retry-After": str(RETRY_AFTER_SECONDS)}) from error
            return message

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "unknown")
                _answers.labels(route, str(message["status"])).inc()
            await send(message)

        await self._app(scope, bounded, answer)
