"""Runs beside `tool_server` in a task's workspace: tools of an MCP server over HTTP (Streamable HTTP), through the
episode's door."""

from __future__ import annotations  # an image's Python may be an old one

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from typing import Any

from tool_server import (  # type: ignore[import-not-found]
    META,
    VERSION,
    NoServer,
    Refused,
    ToolServer,
    message_of,
    read_message,
    result_of,
)

SECONDS = 300


class HttpToolServer(ToolServer):  # type: ignore[misc]  # it lies beside this file there
    def __init__(self, name: str) -> None:
        self._url = f"{os.environ['TOOL_SERVERS_URL']}/{name}"
        self._name = name
        self._ids = count(1)
        self._is_older = self._has_ended = False
        self._session = ""

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        given = params if self._is_older else {**params, "_meta": META}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        try:
            with self._post(message) as answer:
                self._session = answer.headers.get("Mcp-Session-Id") or self._session
                for said in _messages(answer):
                    if said.get("id") == number and "method" not in said:
                        found: dict[str, Any] = result_of(said)
                        return found
        except (OSError, http.client.HTTPException) as error:
            raise NoServer(f"{self._name} broke its answer off: {error!r}") from None
        raise NoServer(f"{self._name} gave no answer")

    def _send(self, message: dict[str, Any]) -> None:
        self._post(message).close()

    def _post(self, message: dict[str, Any]) -> Any:
        headers = {
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Method": message["method"],
            # The greeting settles which older version it is.
            **({} if message["method"] == "initialize" else {"Mcp-Protocol-Version": self._version}),
            **({"Mcp-Session-Id": self._session} if self._session else {}),
            **({"Mcp-Name": message["params"]["name"]} if message["method"] == "tools/call" else {}),
        }
        request = urllib.request.Request(self._url, json.dumps(message).encode(), headers)
        try:
            return urllib.request.urlopen(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise Refused(_reason(text) or f"HTTP {error.code}: {text[:200]}") from None
        except OSError as error:
            raise NoServer(f"{self._name} does not answer: {error}") from None

    @property
    def _version(self) -> str:
        return str(self._older if self._is_older else VERSION)


def _messages(answer: Any) -> Iterator[dict[str, Any]]:
    """Messages of a JSON object, or of a stream of events."""
    if "text/event-stream" not in (answer.headers.get("Content-Type") or ""):
        yield read_message(answer.read().decode(errors="replace"))
        return
    data = b""
    for line in answer:
        if line.startswith(b"data:"):
            data += line[5:].strip()
        elif not line.strip() and data:
            yield read_message(data.decode(errors="replace"))
            data = b""
    if data:
        yield read_message(data.decode(errors="replace"))


def _reason(text: str) -> str:
    """The reason in an error that is a message, too; empty for another."""
    try:
        return str(message_of(json.loads(text)["error"]))
    except (ValueError, KeyError, TypeError):
        return ""
