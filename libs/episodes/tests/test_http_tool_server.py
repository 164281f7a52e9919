"""Tools of an MCP server over HTTP: of today's protocol and older ones, as JSON and as a stream; the official one."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import ratchet_episodes

ROOT = Path(__file__).parents[3]
OFFICIAL = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("people")

@server.tool()
def age(name: str) -> str:
    "How old one is."
    if name != "Ada":
        raise ValueError("nobody of that name")
    return "Ada is 36."

server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module as the program in the workspace has it, by what lies beside it."""
    monkeypatch.syspath_prepend(str(Path(ratchet_episodes.__file__).parent))
    monkeypatch.setenv("OPENAI_API_KEY", "the door's")
    import http_tool_server  # type: ignore[import-not-found]

    yield http_tool_server
    for name in ("http_tool_server", "tool_server"):
        sys.modules.pop(name, None)


class Mcp(BaseHTTPRequestHandler):
    """One tool, `echo`, which says the headers that came. `older`: wants a greeting, and a session."""

    older = streams = False

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        version = self.headers.get("Mcp-Protocol-Version")
        if self.older and asked["method"] == "initialize":
            greeted = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old"}}
            self._say({"id": asked["id"], "result": greeted}, session="s1")
        elif self.older and (self.headers.get("Mcp-Session-Id"), version) != ("s1", "2025-06-18"):
            self._say({"id": None, "error": {"code": -32600, "message": "not greeted"}}, 400)
        elif "id" not in asked:
            self.send_response(202)
            self.end_headers()
        else:
            self._say({"id": asked["id"], "result": self._result(asked)})

    def _result(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        if asked["params"]["arguments"].get("fails"):
            return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
        names = ("Authorization", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version")
        said = {name: self.headers.get(name) for name in names}
        return {"content": [{"type": "text", "text": json.dumps(said)}]}

    def _say(self, message: dict[str, Any], status: int = 200, session: str = "") -> None:
        body, kind = json.dumps({"jsonrpc": "2.0", **message}), "application/json"
        if self.streams and status == 200:
            noise = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
            body = f": hello\n\nevent: message\ndata: {noise}\n\ndata: {body}\n\n"
            kind = "text/event-stream"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *unused: Any) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("streams", [False, True])
def test_tools_are_listed_and_called(served: Any, monkeypatch: pytest.MonkeyPatch, older: bool, streams: bool) -> None:
    handler = type("Handler", (Mcp,), {"older": older, "streams": streams})
    with serving(handler) as url:
        monkeypatch.setenv("TOOL_SERVERS_URL", f"{url}/tools")
        server = served.HttpToolServer("echo")
        assert [one["name"] for one in server.tools()] == ["echo"]
        assert json.loads(server.call("echo", {})) == {
            "Authorization": "Bearer the door's",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "echo",
            "Mcp-Protocol-Version": "2025-06-18" if older else "2026-07-28",
        }
        with pytest.raises(served.Refused, match="it failed"):
            server.call("echo", {"fails": True})


def test_one_that_is_away_or_says_no_message_is_told(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mumbling(Mcp):
        def _say(self, message: dict[str, Any], status: int = 200, session: str = "") -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

    with serving(Mumbling) as url:
        monkeypatch.setenv("TOOL_SERVERS_URL", url)
        with pytest.raises(served.NoServer, match="which is no message"):
            served.HttpToolServer("echo").tools()
    with pytest.raises(served.NoServer, match="echo does not answer"):
        served.HttpToolServer("echo").tools()


@pytest.mark.clients
def test_the_official_server(served: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = ROOT / ".venvs/clients/bin/python"
    if not python.exists():
        pytest.skip("needs the environment of the clients: scripts/setup.sh clients")
    (tmp_path / "server.py").write_text(OFFICIAL)
    with serving(Mcp) as free:
        port = free.rpartition(":")[2]
    process = subprocess.Popen([str(python), str(tmp_path / "server.py"), port])
    try:
        monkeypatch.setenv("TOOL_SERVERS_URL", f"http://127.0.0.1:{port}")
        server, end = served.HttpToolServer("mcp"), time.monotonic() + 60
        while True:
            try:
                tools = {one["name"]: one for one in server.tools()}
                break
            except served.NoServer:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        assert tools["age"]["description"] == "How old one is."
        assert server.call("age", {"name": "Ada"}) == "Ada is 36."
        for arguments in ({"name": "Bob"}, {}):
            with pytest.raises(served.Refused):
                server.call("age", arguments)
    finally:
        process.kill()
        process.wait()
