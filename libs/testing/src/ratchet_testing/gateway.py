"""A gateway in this process: a real HTTP server that gives the replies of a test and keeps the requests."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Received:
    verb: str
    path: str
    query: dict[str, str]
    body: dict[str, Any] | None
    authorization: str


@dataclass(frozen=True, slots=True)
class Reply:
    body: Any = None
    status: int = 200
    events: tuple[tuple[str, Any], ...] | None = None

    def content(self) -> bytes:
        if self.events is not None:
            return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in self.events).encode()
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(slots=True)  # mutable: a test adds replies, the server takes them
class ScriptedGateway:
    """`replies` are given in order. Mutable: a test adds to them, the server takes from them."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)

    def answers(self, *bodies: Any, status: int = 200) -> None:
        """One reply per body, JSON unless it is bytes."""
        self.replies += [Reply(body, status) for body in bodies]

    def streams(self, *events: tuple[str, Any]) -> None:
        """A stream of (name, data)."""
        self.replies.append(Reply(events=events))


@contextmanager
def scripted_gateway() -> Iterator[ScriptedGateway]:
    gateway = ScriptedGateway()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            url = urlsplit(self.path)
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(text) if text else None
            authorization = self.headers.get("Authorization", "")
            gateway.received.append(Received(self.command, url.path, dict(parse_qsl(url.query)), body, authorization))
            reply = gateway.replies.pop(0)
            content = reply.content()
            self.send_response(reply.status)
            media = "application/json" if reply.events is None else "text/event-stream"
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    gateway.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
