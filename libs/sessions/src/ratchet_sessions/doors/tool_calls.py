"""Calls of a program to an MCP server that the operator named: passed on as they are, with the operator's token."""

import time
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta

import aiohttp
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ratchet_kit.errors import Unavailable
from ratchet_kit.tool_servers import ToolServer

MOST_BYTES = 64 << 20
"""Bytes of an answer."""
_TIMEOUT = aiohttp.ClientTimeout(total=300, connect=10)
_METHODS = ("POST", "GET", "DELETE")
"""Methods of the protocol."""
_TAKEN = ("accept", "content-type", "last-event-id")
_GIVEN = ("content-type",)
_OWN = "mcp-"
"""Headers of the protocol begin so."""
_AWAY = {401: "refuses the operator's token", 429: "is busy", 502: "is away", 503: "is away", 504: "is away"}
_TYPES = ("application/json", "text/event-stream")
"""Types that answers of the protocol have."""


async def pass_on(
    http: Request, body: bytes, name: str, server: ToolServer, waits: timedelta, lost: Callable[[Unavailable], None]
) -> Response:
    """The server's answer, which comes as it is made. Raises Unavailable where the server is away, or answers as none
    does: that says nothing about who asked. `lost` is told of an answer that breaks off, has no end, or says nothing
    for `waits` until the program leaves; not of a stream that a program only listens to."""
    begin = time.monotonic()
    sent = {key: value for key, value in http.headers.items() if key in _TAKEN or key.startswith(_OWN)}
    if token := server.token.get_secret_value():
        sent["authorization"] = f"Bearer {token}"
    session = aiohttp.ClientSession(timeout=_TIMEOUT)
    try:
        answer = await session.request(http.method, str(server.url), data=body, headers=sent, allow_redirects=False)
        if fault := _fault(answer, http.method):
            raise Unavailable(f"the tool server {name} {fault}: HTTP {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        await session.close()
        raise Unavailable(f"the tool server {name} does not answer: {str(error) or type(error).__name__}") from error
    except Unavailable:
        await session.close()
        raise
    except BaseException:
        await session.close()
        if left := _left(begin, waits):
            lost(Unavailable(f"the tool server {name} {left}"))
        raise

    async def pieces() -> AsyncGenerator[bytes]:
        size, last = 0, time.monotonic()
        fault = ""
        try:
            async for piece in answer.content.iter_any():
                size, last = size + len(piece), time.monotonic()
                if size > MOST_BYTES and http.method == "POST":
                    fault = f"gave an answer of more than {MOST_BYTES} bytes"
                    raise Unavailable(f"the tool server {name} {fault}")
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            fault = f"broke its answer off: {str(error) or type(error).__name__}"
            raise
        except Unavailable:
            raise
        except BaseException:
            fault = _left(last, waits)
            raise
        finally:
            if fault and http.method == "POST":
                lost(Unavailable(f"the tool server {name} {fault}"))
            await session.close()

    given = {key: value for key, value in answer.headers.items() if key.lower() in _GIVEN or _is_own(key)}
    return StreamingResponse(pieces(), answer.status, given)


def check_method(http: Request) -> None:
    """Raises HTTPException (405)."""
    if http.method not in _METHODS:
        raise HTTPException(405, f"a tool server answers to {', '.join(_METHODS)}")


def _fault(answer: aiohttp.ClientResponse, method: str) -> str:
    """The reason that this is no answer of an MCP server to a program; empty for one that is."""
    if 300 <= answer.status < 400:
        return "redirects elsewhere, where nobody follows: RATCHET_TOOL_SERVERS names its last address"
    says = answer.content_type if "Content-Type" in answer.headers and answer.content_length != 0 else ""
    if method == "POST" and answer.status == 200 and says and says not in _TYPES:
        return f"answers with {answer.content_type}, as no MCP server does"
    return _AWAY.get(answer.status, "")


def _left(since: float, waits: timedelta) -> str:
    """The reason that a program left, where it is the server's; empty where it is not."""
    waited = time.monotonic() - since
    return f"said nothing for {waited:.0f} s, and the program left" if waited > waits.total_seconds() else ""


def _is_own(header: str) -> bool:
    return header.lower().startswith(_OWN)
