"""Tools of an MCP server: the official one, unmodified, and one of before 2026-07-28."""

import sys
from pathlib import Path

import pytest

from ratchet_episodes.tool_server import Ended, NoServer, Refused, ToolServer

ROOT = Path(__file__).parents[3]
OFFICIAL = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("people")

@server.tool()
def age(name: str) -> str:
    "How old one is."
    if name != "Ada":
        raise ValueError("nobody of that name")
    return "Ada is 36."

@server.tool()
def total(ages: list[int]) -> dict[str, int]:
    return {"years": sum(ages)}

server.run()
"""
OLDER = """
import json, sys

greeted = []
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked.get("method", "").startswith("notifications/"):
        print(json.dumps({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}), flush=True)
        continue
    if asked.get("method") is None:
        assert asked["error"]["code"] == -32601
        continue
    if asked["method"] == "initialize":
        greeted.append(asked["params"]["protocolVersion"])
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
    elif not greeted or "_meta" in asked["params"]:
        print(json.dumps(reply | {"error": {"code": -32600, "message": "not greeted"}}), flush=True)
        continue
    elif asked["method"] == "tools/list":
        first = "cursor" not in asked["params"]
        tool = {"name": "one" if first else "two", "inputSchema": {"type": "object"}}
        result = {"tools": [tool]} | ({"nextCursor": "x"} if first else {})
    else:
        result = {"content": [], "structuredContent": {"said": greeted}}
    print(json.dumps(reply | {"result": result}), flush=True)
"""


@pytest.mark.clients
def test_the_official_server(tmp_path: Path) -> None:
    python = ROOT / ".venvs/clients/bin/python"
    if not python.exists():
        pytest.skip("needs the environment of the clients: scripts/setup.sh clients")
    (tmp_path / "server.py").write_text(OFFICIAL)
    server = ToolServer([str(python), str(tmp_path / "server.py")])
    tools = {one["name"]: one for one in server.tools()}
    assert tools["age"]["description"] == "How old one is."
    assert tools["age"]["parameters"]["required"] == ["name"]
    assert server.call("age", {"name": "Ada"}) == "Ada is 36."
    assert '"years": 3' in server.call("total", {"ages": [1, 2]})
    for name, arguments in (("age", {"name": "Bob"}), ("age", {}), ("no_tool", {})):
        with pytest.raises(Refused):
            server.call(name, arguments)
    assert not server._is_older


def test_an_older_server_is_greeted_and_asked_for_all_pages(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(OLDER)
    server = ToolServer([sys.executable, str(tmp_path / "server.py")])
    assert [one["name"] for one in server.tools()] == ["one", "two"]
    assert server.call("one", {}) == '{"said": ["2025-11-25"]}'


@pytest.mark.parametrize("calls", [1, 2])
def test_a_server_that_has_ended_is_started_again_at_the_next_call(tmp_path: Path, calls: int) -> None:
    """Each of them ends after so many calls; it is greeted each time."""
    ending = f"import sys\nleft = {calls}\n" + OLDER.replace(
        'print(json.dumps(reply | {"result": result})',
        'left -= asked["method"] == "tools/call"\n    if left < 0:\n        sys.exit()\n'
        '    print(json.dumps(reply | {"result": result})',
    )
    (tmp_path / "server.py").write_text(ending)
    server = ToolServer([sys.executable, str(tmp_path / "server.py")])
    server.tools()
    for _ in range(2):
        for _ in range(calls):
            assert server.call("one", {}) == '{"said": ["2025-11-25"]}'
        with pytest.raises(Ended, match="has ended; the next call starts it again"):
            server.call("one", {})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("5", "it says '5', which is no message"),
        ('{"id": 1, "result": {"tools": [{"name": "one"}]}}', "a tool of it is not described: KeyError"),
        ('{"id": 1, "result": {"tools": ["one"]}}', "a tool of it is not described"),
    ],
)
def test_a_server_that_answers_something_else_is_said(answer: str, said: str) -> None:
    with pytest.raises(NoServer, match=said):
        ToolServer(["bash", "-c", f"read line; echo '{answer}'; cat"]).tools()
