"""Serves an HTTP application beside gRPC, in the same process and under the same end.

Uvicorn is asked for by the services that have such an application, and not by kit.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp, Receive
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ratchet_kit.errors import Cancelled, FailedPrecondition
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

SILENCE = timedelta(seconds=75)
"""How long a client may be silent: between two requests, in the middle of one, and while an answer waits for it. Longer
than clients keep a connection that nobody uses: a request that meets one being closed is lost."""

T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when its caller has gone.

    `receive`: of a request whose body has been read. Raises Cancelled then.
    """

    working = asyncio.current_task()
    assert working is not None
    has_gone = False

    async def watch() -> None:
        nonlocal has_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        has_gone = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError as error:
        if has_gone and working.uncancel() == 0:
            raise Cancelled("the caller has gone") from error
        raise
    finally:
        watching.cancel()


class _Timer:
    """Calls `end` some seconds after its start, unless it is stopped before."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self._seconds = seconds
        self._end = end
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Does nothing where it runs already."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._over)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _over(self) -> None:
        self._handle = None
        self._end()


class _Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Ends when its client does not send the whole of a request within the time that uvicorn keeps an unused connection
    for, or takes nothing of an answer for so long. Uvicorn waits for these for ever: a stranger who sends nothing could
    hold as many connections as the service may have."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._arriving = _Timer(self.timeout_keep_alive, self._late)
        self._leaving = _Timer(self.timeout_keep_alive, self.transport.abort)
        self._arriving.start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waits():
            self._arriving.start()
        else:
            self._arriving.stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._leaving.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._leaving.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving.stop()
        self._leaving.stop()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        """For the rest of a request."""
        if self.cycle is None or self.cycle.response_complete:
            return self.timeout_keep_alive_task is None  # else uvicorn waits for the next one
        return bool(self.cycle.more_body)

    def _late(self) -> None:
        if not self._waits():
            return
        if self.flow.read_paused:  # it is we who read nothing
            self._arriving.start()
        else:
            self.transport.abort()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are `ratchet_kit.server.serve`'s."""
        yield


@dataclass(frozen=True, slots=True)
class Certificate:
    """For TLS, in PEM."""

    file: Path
    """With what leads from it to its authority."""
    key_file: Path

    def check(self) -> None:
        """Raises FailedPrecondition when the two cannot be read, or do not belong together."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.file, self.key_file)
        except OSError as error:  # ssl's own errors are of this class
            raise FailedPrecondition(f"the certificate {self.file} cannot be used: {error}") from error


class HttpServer:
    """Listens from its construction on; what connects before `run` is answered then."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        grace: timedelta,
        certificate: Certificate | None = None,
        silence: timedelta = SILENCE,
    ) -> None:
        """With a certificate it speaks HTTPS only.

        Raises FailedPrecondition when the port is in use, or the certificate cannot be used.
        """
        if certificate is not None:
            certificate.check()
        try:
            self._socket = socket.create_server((host, port), backlog=2048)
        except OSError as error:
            raise FailedPrecondition(f"cannot listen on {host}:{port}: {error.strerror}") from error
        # Its connections inherit it. asyncio leaves a socket of no named protocol as it is: the end of an answer then
        # waits 40 ms for the client's delayed acknowledgement of its begin.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # the address of a caller is not used
            http=_Connection,
            ws="none",
            timeout_keep_alive=int(silence.total_seconds()),
            timeout_graceful_shutdown=max(1, int(grace.total_seconds()) - 1),
            ssl_certfile=certificate.file if certificate else None,
            ssl_keyfile=certificate.key_file if certificate else None,
        )
        self._server = _Server(config)
        self.url = f"{'https' if certificate else 'http'}://{host}:{self._socket.getsockname()[1]}"

    async def run(self, stop: asyncio.Event) -> None:
        log.info("http.serving", url=self.url)
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self._server.should_exit = True
            await serving
        finally:
            stopping.cancel()
            self._socket.close()
