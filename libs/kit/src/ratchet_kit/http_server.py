"""Serves an HTTP application beside gRPC, in the same process and under the same end.

Uvicorn and httptools are asked for by the services that have such an application, and not by kit.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp, Receive

from ratchet_kit import service_auth
from ratchet_kit.errors import Cancelled, FailedPrecondition
from ratchet_kit.http_protocol import BoundedProtocol
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")

LAST_ANSWERS_SECONDS = 2.0
"""In which a server that ends closes no idle connection: the request that is on its way there would be lost."""


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

    def stamp(self) -> tuple[int, int]:
        """Another when the files were written again. Raises OSError."""
        return self.file.stat().st_mtime_ns, self.key_file.stat().st_mtime_ns


class HttpServer:
    """Listens from its construction on; what connects before `run` is answered then."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        grace: timedelta,
        certificate: Certificate | None = None,
        *,
        shares_port: bool = False,
    ) -> None:
        """With a certificate it speaks HTTPS only. `shares_port`: with the other `workers`.

        Raises FailedPrecondition when the port is in use, or the certificate cannot be used.
        """
        self._certificate = certificate
        if certificate is not None:
            certificate.check()
        try:
            self._socket = socket.create_server((host, port), backlog=2048, reuse_port=shares_port)
        except OSError as error:
            raise FailedPrecondition(f"cannot listen on {host}:{port}: {error.strerror}") from error
        # Its connections inherit it. asyncio leaves a socket of no named protocol as it is: the end of an answer then
        # waits 40 ms for the client's delayed acknowledgement of its begin.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # the address of a caller is not used
            # Longer than clients keep theirs: a request that meets a connection being closed is lost.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, int(grace.total_seconds() - LAST_ANSWERS_SECONDS) - 1),
            ssl_certfile=certificate.file if certificate else None,
            ssl_keyfile=certificate.key_file if certificate else None,
        )
        self._server = _Server(config)
        self.url = f"{'https' if certificate else 'http'}://{host}:{self._socket.getsockname()[1]}"

    async def run(self, stop: asyncio.Event) -> None:
        log.info("http.serving", url=self.url)
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        stopping = asyncio.create_task(stop.wait())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await self._last_answers()
            self._server.should_exit = True
            await serving
        finally:
            stopping.cancel()
            renewing.cancel()
            self._socket.close()

    async def _last_answers(self) -> None:
        """Each tells its caller that the connection ends with it."""
        state, loop = self._server.server_state, asyncio.get_running_loop()
        for headers in (self._server.config.encoded_headers, state.default_headers):
            headers.append((b"connection", b"close"))
        deadline = loop.time() + LAST_ANSWERS_SECONDS
        while state.connections and loop.time() < deadline:
            await asyncio.sleep(0.05)

    async def _renew(self) -> None:
        """Shows a certificate that was put in the place of another to those who connect from then on."""
        certificate = self._certificate
        shown = certificate.stamp() if certificate else None
        while certificate is not None:
            await asyncio.sleep(service_auth.PERIOD)
            try:
                found = certificate.stamp()
                if found == shown or self._server.config.ssl is None:
                    continue
                certificate.check()
                self._server.config.ssl.load_cert_chain(certificate.file, certificate.key_file)
                shown = found
                log.info("http.certificate_renewed", file=str(certificate.file))
            except (OSError, FailedPrecondition) as error:
                log.warning("secret.not_read", reason=str(error))
