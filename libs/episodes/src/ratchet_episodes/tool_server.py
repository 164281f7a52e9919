"""Runs beside `tools_program` in a task's workspace, with the standard library alone: tools of an MCP server
(modelcontextprotocol.io, 2026-07-28: each request stands by itself; older ones are greeted first), over its standard
input and output."""

from __future__ import annotations  # an image's Python may be an old one

import json
import subprocess
from itertools import count
from typing import Any

VERSION, OLDER = "2026-07-28", "2025-11-25"
_ABOUT = {"name": "ratchet", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": _ABOUT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Refused(Exception):
    """The server's error."""


class NoServer(Refused):
    """It does not speak the protocol."""


def message_of(error: Any) -> str:
    return str(error.get("message") if isinstance(error, dict) else error)


def read_message(text: str) -> dict[str, Any]:
    """Raises NoServer for another text."""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise NoServer(f"it says {text.strip()[:80]!r}, which is no message")
    return said


def result_of(said: dict[str, Any]) -> dict[str, Any]:
    """Raises Refused for an error."""
    if "error" in said:
        raise Refused(message_of(said["error"]))
    result = said.get("result")
    return result if isinstance(result, dict) else {}


class Ended(NoServer):
    """It has hung up."""


class ToolServer:
    """A process of the policy's workspace: what it does counts as the workspace's, its end is the tools' error, and the
    next call starts it again."""

    _older = OLDER
    """The version that an older one speaks."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process = self._started()
        self._ids = count(1)
        self._is_older = self._has_ended = False

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def tools(self) -> list[dict[str, Any]]:
        """As OpenAI's API describes functions. Raises Refused where it is no such server."""
        try:
            found = self._listed()
        except NoServer:
            raise
        except Refused:
            self._greet()
            found = self._listed()
        try:
            return [
                {"name": one["name"], "description": one.get("description") or "", "parameters": one["inputSchema"]}
                for one in found
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise NoServer(f"a tool of it is not described: {error!r}") from None

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The tool's texts. Raises Refused, also where it says that it failed."""
        if self._has_ended:
            self._start_again()
        try:
            result = self._request("tools/call", {"name": name, "arguments": arguments})
        except Ended as error:
            self._has_ended = True
            raise Ended(f"{error}; the next call starts it again") from None
        if result.get("resultType", "complete") != "complete":
            raise Refused(f"the tool {name} wants to know more from a person: {result['resultType']}")
        texts = [str(one.get("text") or f"({one.get('type')})") for one in result.get("content") or ()]
        if not texts and "structuredContent" in result:
            texts = [json.dumps(result["structuredContent"])]
        if result.get("isError"):
            raise Refused("\n".join(texts) or "the tool failed")
        return "\n".join(texts)

    def _start_again(self) -> None:
        self._process.kill()  # one that only closed its output
        self._process.wait()
        self._process = self._started()
        self._has_ended = False
        if self._is_older:
            self._greet()

    def _listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self._request("tools/list", {"cursor": cursor} if cursor else {})
            found += page.get("tools") or ()
            cursor = page.get("nextCursor")
            if not cursor:
                return found

    def _greet(self) -> None:
        self._is_older = True
        greeted = self._request("initialize", {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": _ABOUT})
        self._older = str(greeted.get("protocolVersion") or OLDER)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Whatever else the server says meanwhile is passed over; what it asks for there is not."""
        number = next(self._ids)
        given = params if self._is_older else {**params, "_meta": META}
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": given})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = read_message(line)
            if said.get("method") and "id" in said:
                self._send({"jsonrpc": "2.0", "id": said["id"], "error": {"code": -32601, "message": "not offered"}})
            elif said.get("id") == number:
                return result_of(said)
        raise Ended(self._ended)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Ended(self._ended) from None

    @property
    def _ended(self) -> str:
        return f"{self._command[0]}, which serves the tools, has ended"
