"""Calls of a program to an MCP server that the operator named: passed on as they are, with the operator's token."""

from collections.abc import AsyncGenerator, Callable

import aiohttp
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ratchet_kit.errors import Unavailable
from ratchet_kit.tool_servers import ToolServer

_TIMEOUT = aiohttp.ClientTimeout(total=300, connect=10)
_TAKEN = ("accept", "content-type", "last-event-id")
_GIVEN = ("content-type",)
_OWN = "mcp-"
"""Headers of the protocol begin so."""
_AWAY = (502, 503, 504)


async def pass_on(http: Request, name: str, server: ToolServer, lost: Callable[[Unavailable], None]) -> Response:
    """The server's answer, which comes as it is made. Raises Unavailable where the server is away: that says nothing
    about who asked. `lost` is told of an answer that breaks off; not of a stream that a program only listens to."""
    sent = {key: value for key, value in http.headers.items() if key in _TAKEN or key.startswith(_OWN)}
    if token := server.token.get_secret_value():
        sent["authorization"] = f"Bearer {token}"
    session = aiohttp.ClientSession(timeout=_TIMEOUT)
    try:
        answer = await session.request(
            http.method, str(server.url), data=await http.body(), headers=sent, allow_redirects=False
        )
        if answer.status in _AWAY:
            raise Unavailable(f"the tool server {name} is away: HTTP {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        await session.close()
        raise Unavailable(f"the tool server {name} does not answer: {str(error) or type(error).__name__}") from error
    except BaseException:
        await session.close()
        raise

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            async for piece in answer.content.iter_any():
                yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            if http.method == "POST":
                lost(Unavailable(f"the tool server {name} broke its answer off: {str(error) or type(error).__name__}"))
            raise
        finally:
            await session.close()

    given = {key: value for key, value in answer.headers.items() if key.lower() in _GIVEN or _is_own(key)}
    return StreamingResponse(pieces(), answer.status, given)


def _is_own(header: str) -> bool:
    return header.lower().startswith(_OWN)
