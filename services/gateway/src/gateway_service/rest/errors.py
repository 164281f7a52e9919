"""Answers every error of FastAPI's routes in the shape of the API that was called."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gateway_service.auth import behind_the_door
from ratchet_kit.errors import Internal, RatchetError
from ratchet_sessions.doors.errors import gone, http_response, invalid_body, to_response


def install(app: FastAPI) -> None:
    @app.exception_handler(RatchetError)
    async def ratchet_error(request: Request, error: RatchetError) -> JSONResponse:
        return to_response(request, behind_the_door(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return to_response(request, invalid_body([(fault["loc"][1:], fault["msg"]) for fault in error.errors()]))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return http_response(request, error)

    @app.exception_handler(ClientDisconnect)
    async def left(request: Request, error: ClientDisconnect) -> JSONResponse:
        return to_response(request, gone())

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return to_response(request, Internal(f"{type(error).__name__}: {error}"))
