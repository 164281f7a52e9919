"""Tool servers behind an episode's door: reached by name with the operator's token, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ratchet_kit.tool_servers import ToolServer
from ratchet_sessions import Session
from ratchet_sessions import door as door_module
from ratchet_sessions.door import Door, Seat, opened
from ratchet_sessions.doors import tool_calls
from ratchet_testing.memory_engine import MemoryEngine

CAME = web.AppKey("came", asyncio.Event)


async def echo(request: web.Request) -> web.StreamResponse:
    """An MCP server: says what came, in two pieces; or is away."""
    if request.query.get("status"):
        return web.Response(status=int(request.query["status"]), text="no", headers={"Location": "http://127.0.0.1:1/"})
    if "html" in request.query:
        return web.Response(text="<html>", content_type="text/html")
    if "hangs" in request.query:
        request.app[CAME].set()
        await asyncio.sleep(600)
    body = await request.text()
    names = ("Authorization", "Mcp-Name", "Cookie")
    answer = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Mcp-Session-Id": "s1", "Set-Cookie": "a=b"}
    )
    await answer.prepare(request)
    await answer.write(f"data: {body}\n\n".encode())
    while "endless" in request.query:
        await answer.write(b": ping\n\n" * 10_000)
    if "silent" in request.query:
        request.app[CAME].set()
        await asyncio.sleep(600)
    if "breaks" in request.query:
        assert request.transport is not None
        request.transport.abort()
    await answer.write(f"data: {[request.headers.get(name, '') for name in names]}\n\n".encode())
    return answer


@asynccontextmanager
async def reached(
    query: str = "", away: bool = False, came: asyncio.Event | None = None
) -> AsyncIterator[tuple[Door, Session]]:
    """A door with the tool server "search". `came`: set when it falls silent."""
    app = web.Application()
    app[CAME] = came or asyncio.Event()
    app.router.add_route("*", "/mcp", echo)
    async with TestServer(app) as server:
        url = f"http://127.0.0.1:{server.port}/mcp{query}"
        if away:
            await server.close()
        session = Session()
        seat = Seat(MemoryEngine(), "p")
        named = ToolServer.model_validate({"url": url, "token": "the operator's"})
        async with opened(Door(session, {"": seat}, tool_servers={"search": named})) as door:
            yield door, session


async def asked_tools(door: Door, name: str = "search", key: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {key or door.key}", "Mcp-Name": "find", "Cookie": "c=d"}
    url = door.variables(door.url)["TOOL_SERVERS_URL"]
    async with httpx.AsyncClient() as client:
        return await client.post(f"{url}/{name}", content=b"{}", headers=headers)


async def test_a_tool_server_is_reached_by_its_name_with_the_operators_token() -> None:
    async with reached() as (door, session):
        answer = await asked_tools(door)
        others = [
            await asked_tools(door, "other"),
            await asked_tools(door, "search/../x"),
            await asked_tools(door, key="k"),
        ]
    assert answer.text == "data: {}\n\ndata: [\"Bearer the operator's\", 'find', '']\n\n"
    assert (answer.headers["Mcp-Session-Id"], "Set-Cookie" in answer.headers) == ("s1", False)
    assert [one.status_code for one in others] == [404, 404, 401]
    assert session.failed == [], "who asks for what is not there is at fault"
    assert "TOOL_SERVERS_URL" not in Door(Session(), {}).variables("http://door")


@pytest.mark.parametrize(
    ("query", "away", "said"),
    [
        ("", True, "does not answer"),
        ("?status=503", False, "is away: HTTP 503"),
        ("?status=401", False, "refuses the operator's token: HTTP 401"),
        ("?status=429", False, "is busy: HTTP 429"),
        (
            "?status=307",
            False,
            "redirects elsewhere, where nobody follows: RATCHET_TOOL_SERVERS names its last address",
        ),
        ("?html=1", False, "answers with text/html, as no MCP server does: HTTP 200"),
    ],
)
async def test_a_tool_server_that_is_away_is_a_fault_of_the_platform(query: str, away: bool, said: str) -> None:
    async with reached(query, away) as (door, session):
        answer = await asked_tools(door)
    assert answer.status_code == 503
    (lost,) = session.lost
    assert f"the tool server search {said}" in lost.reason


async def test_an_answer_that_a_tool_server_breaks_off_is_a_fault_of_the_platform() -> None:
    async with reached("?breaks=1") as (door, session):
        with pytest.raises(httpx.HTTPError):
            await asked_tools(door)
    (lost,) = session.lost
    assert "the tool server search broke its answer off" in lost.reason


async def test_an_error_of_a_tool_server_is_the_programs_affair() -> None:
    async with reached("?status=500") as (door, session):
        answer = await asked_tools(door)
    assert (answer.status_code, session.lost) == (500, [])


async def test_an_answer_without_an_end_is_a_fault_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "MOST_BYTES", 1 << 20)
    async with reached("?endless=1") as (door, session):
        with pytest.raises(httpx.HTTPError):
            await asked_tools(door)
    (lost,) = session.lost
    assert "the tool server search gave an answer of more than 1048576 bytes" in lost.reason


@pytest.mark.parametrize("query", ["?hangs=1", "?silent=1"])
@pytest.mark.parametrize("is_long", [True, False])
async def test_who_leaves_a_tool_server_that_says_nothing(
    query: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute it is the server's fault, as of a model that does not answer."""
    monkeypatch.setattr(door_module, "WAITS", timedelta(seconds=0.1 if is_long else 600))
    came = asyncio.Event()
    async with reached(query, came=came) as (door, session):
        asking = asyncio.create_task(asked_tools(door))
        await came.wait()
        await asyncio.sleep(0.5)
        asking.cancel()
        while is_long and not session.lost:
            await asyncio.sleep(0.01)
    assert [one.reason.partition(" for ")[0] for one in session.lost] == [
        "the tool server search said nothing"
    ] * is_long


@pytest.mark.parametrize(
    "start",
    [
        "POST /tools/../v1/models",
        "POST /tools/search/../../other",
        "POST /tools/search/%2e%2e/other",
        "POST /tools/%2e%2e/search",
        "POST //tools/search",
        "POST /tools//search",
        "POST /tools/search/",
        "POST /tools/search%0d%0aHost:%20a",
        "POST /tools/search%00",
        "POST http://127.0.0.1:1/tools/other",
        "CONNECT 127.0.0.1:1",
        "CONNECT /tools/search",
        "TRACE /tools/search",
        "PUT /tools/search",
    ],
)
async def test_no_path_leads_elsewhere(start: str) -> None:
    async with reached() as (door, session):
        answer = await said(door, f"{start} HTTP/1.1\r\nHost: localhost\r\n")
    assert answer.split(" ")[1][0] == "4", answer
    assert "operator" not in answer
    assert session.failed == []


@pytest.mark.parametrize(
    "headers",
    [
        "Host: 169.254.169.254\r\n",
        "Host: a\r\nX-Forwarded-Host: b\r\nForwarded: host=c\r\nX-Original-URL: /d\r\nProxy-Authorization: Basic e\r\n",
        "Host: a\r\nConnection: mcp-name, upgrade\r\nUpgrade: websocket\r\n",
        "Host: a\r\nMcp-Authorization: Bearer mine\r\nTransfer-Encoding: identity\r\n",
    ],
)
async def test_no_header_leads_elsewhere(headers: str) -> None:
    """The server that was named gets it, with the operator's token."""
    async with reached() as (door, _):
        answer = await said(door, f"POST /tools/search HTTP/1.1\r\n{headers}")
    assert answer.startswith("HTTP/1.1 4") or "Bearer the operator's" in answer


async def said(door: Door, start: str) -> str:
    """The answer to a request, of which `start` is the first lines."""
    host, _, port = door.url.removeprefix("http://").rpartition(":")
    reading, writing = await asyncio.open_connection(host, int(port))
    end = f"Authorization: Bearer {door.key}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    writing.write(f"{start}{end}".encode())
    async with asyncio.timeout(20):
        answer = await reading.read()
    writing.close()
    return answer.decode()
