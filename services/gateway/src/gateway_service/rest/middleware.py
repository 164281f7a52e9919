"""ASGI middleware: the id of each HTTP request, its metrics and its log line."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ratchet_kit import ids, logs, metrics
from ratchet_sessions.doors.errors import ANTHROPIC_PREFIX

log = logs.get_logger(__name__)

_handled = metrics.counter("gateway_http_handled", "Requests answered", ("method", "route", "status"))
_seconds = metrics.histogram("gateway_http_seconds", "Time to the end of the answer", ("method", "route"))

REQUEST_ID = b"x-request-id"
ANTHROPICS_ID = b"request-id"
"""Where Anthropic's clients look for it."""
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class RequestMiddleware:
    """Gives each request an id: the caller's, or a new one. It is in the answer, the log and every call made for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(REQUEST_ID, b"").decode("latin-1")
        request_id = ids.passed_on(sent) or ids.new_id("req")
        names = (REQUEST_ID, ANTHROPICS_ID) if scope["path"].startswith(ANTHROPIC_PREFIX) else (REQUEST_ID,)
        start = time.perf_counter()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                ids_of_it = [(name, request_id.encode("latin-1")) for name in names]
                message["headers"] = [*message.get("headers", []), *ids_of_it]
            await send(message)

        with logs.bound(request_id=request_id):
            try:
                await self._app(scope, receive, answer)
            finally:
                seconds = time.perf_counter() - start
                # The template and not the path: else the label would have a value per id.
                route = getattr(scope.get("route"), "path", "unknown")
                # A caller may invent methods: no label has a value that is not ours.
                method = scope["method"] if scope["method"] in METHODS else "other"
                _handled.labels(method, route, str(status)).inc()
                _seconds.labels(method, route).observe(seconds)
                log.debug("request.answered", method=scope["method"], path=scope["path"], status=status)
