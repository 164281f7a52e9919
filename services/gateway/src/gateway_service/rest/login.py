"""/login: login in the console by the operator's identity provider, which ends with a token in place of a key."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from gateway_service.domain.keys.logins import Answer, Logins
from ratchet_sessions.doors import bodies

PATH = "/login"
SECONDS = 600
"""For a person to sign in."""
_NEVER_KEPT = {"Cache-Control": "no-store"}


class Returned(BaseModel):
    """The parameters of the console's address when the provider has sent somebody back (RFC 6749, section 4.1.2)."""

    state: str = Field(max_length=128)
    code: str = Field(default="", max_length=8192)
    error: str = Field(default="", max_length=128)
    error_description: str = Field(default="", max_length=1024)

    def answer(self) -> Answer:
        return Answer(self.state, self.code, ": ".join(filter(None, (self.error, self.error_description))))


def build(logins: Logins | None) -> APIRouter:
    """None: the console asks for a key."""
    api = APIRouter(include_in_schema=False)

    @api.get(PATH)
    async def offered() -> JSONResponse:
        return JSONResponse({"provider": logins.provider if logins else ""}, headers=_NEVER_KEPT)

    if logins is None:
        return api
    cookie = "__Host-ratchet-login" if logins.is_secure else "ratchet-login"

    @api.post(PATH)
    async def begin() -> JSONResponse:
        begun = await logins.begin()
        reply = JSONResponse({"url": begun.url}, headers=_NEVER_KEPT)
        reply.set_cookie(
            cookie, begun.secret, SECONDS, path="/", secure=logins.is_secure, httponly=True, samesite="strict"
        )
        return reply

    @api.post(f"{PATH}/token")
    async def finish(request: Request) -> JSONResponse:
        returned = await bodies.read_as(request, Returned)
        session = await logins.finish(request.cookies.get(cookie, ""), returned.answer())
        reply = JSONResponse({"token": session.token, "logout_url": session.logout_url}, headers=_NEVER_KEPT)
        reply.delete_cookie(cookie, path="/", secure=logins.is_secure, httponly=True, samesite="strict")
        return reply

    return api
