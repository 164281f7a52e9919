"""How services know one another: a token that all share and each call carries, and certificates where that is set.

The token is RATCHET_SERVICE_TOKEN, or what RATCHET_SERVICE_TOKEN_FILE holds; without either it is in `service.token` of
RATCHET_HOME (~/.ratchet), made at the first use. A service that calls no other is better given
RATCHET_SERVICE_TOKEN_DIGEST or RATCHET_SERVICE_TOKEN_DIGEST_FILE alone, which does not reveal the token: the sandbox,
where strangers' code runs. A file may hold several tokens or digests, one a line: all are accepted, the first is shown.

RATCHET_TLS_CERT_FILE, RATCHET_TLS_KEY_FILE and RATCHET_TLS_CA_FILE, set together, put TLS with certificates of both
sides around every call between services. Each certificate is one of the CA's, for the name TLS_NAME.

All these files are read again while a process runs, so that what they hold is changed without a restart.
"""

import hashlib
import os
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import grpc

from ratchet_kit import files
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.logs import get_logger

log = get_logger(__name__)
T = TypeVar("T")

TOKEN = "RATCHET_SERVICE_TOKEN"
TOKEN_FILE = "RATCHET_SERVICE_TOKEN_FILE"
DIGEST = "RATCHET_SERVICE_TOKEN_DIGEST"
DIGEST_FILE = "RATCHET_SERVICE_TOKEN_DIGEST_FILE"
MIN_TOKEN = 32
"""Characters."""
TLS_NAME = "ratchet.internal"
"""What every service's certificate is for: clients look for this name, whatever the address."""
PERIOD = 1.0
"""Seconds between two looks at a file."""
_TLS = ("RATCHET_TLS_CERT_FILE", "RATCHET_TLS_KEY_FILE", "RATCHET_TLS_CA_FILE")


class Fresh(Generic[T]):
    """A value of files, which are read again when it is asked for, once a second at most."""

    def __init__(self, read: Callable[[], T]) -> None:
        """Raises what `read` raises. Later a value that cannot be read stays as it was, and the log says so."""
        self._read = read
        self._value = read()
        self._look = time.monotonic()

    def __call__(self) -> T:
        now = time.monotonic()
        if now - self._look >= PERIOD:
            self._look = now
            try:
                self._value = self._read()
            except FailedPrecondition as error:
                log.warning("secret.not_read", reason=error.message)
        return self._value


def tokens(environ: Mapping[str, str] = os.environ) -> Sequence[str]:
    """Tokens that this process accepts. Raises FailedPrecondition when they cannot be read, or one is too short."""
    if not (found := environ.get(TOKEN, "").split()):
        own, named = files.home(environ) / "service.token", environ.get(TOKEN_FILE)
        try:
            found = (Path(named).read_text() if named else files.secret(own, new_token)).split()
        except OSError as error:
            raise FailedPrecondition(f"the services' token cannot be read ({TOKEN_FILE}): {error}") from error
    if not found or min(map(len, found)) < MIN_TOKEN:
        raise FailedPrecondition(
            f"the services' token must have {MIN_TOKEN} characters or more ({TOKEN}, {TOKEN_FILE})"
        )
    return found


def token(environ: Mapping[str, str] = os.environ) -> str:
    """The token that this process shows. Raises FailedPrecondition."""
    return tokens(environ)[0]


def new_token() -> str:
    """256 random bits."""
    return secrets.token_hex(32)


def digest_of(token: str) -> str:
    """sha256, hex: enough for a token that cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def expected_digests(environ: Mapping[str, str] = os.environ) -> Sequence[str]:
    """What `digest_of` a caller's token must be one of. Raises FailedPrecondition."""
    try:
        named = environ.get(DIGEST_FILE, "")
        found = environ.get(DIGEST, "").split() or (Path(named).read_text().split() if named else [])
    except OSError as error:
        raise FailedPrecondition(
            f"the digest of the services' token cannot be read ({DIGEST_FILE}): {error}"
        ) from error
    if named and not found:
        raise FailedPrecondition(f"there is no digest in {named} ({DIGEST_FILE})")
    return found or [digest_of(one) for one in tokens(environ)]


def server_credentials(public: bool, environ: Mapping[str, str] = os.environ) -> grpc.ServerCredentials | None:
    """None without TLS. `public`: callers from outside have no certificate. Raises FailedPrecondition."""
    if certificates(environ) is None:
        return None

    def configuration() -> grpc.ServerCertificateConfiguration:
        found = certificates(environ)
        assert found is not None
        return grpc.ssl_server_certificate_configuration([(found.key, found.cert)], None if public else found.ca)

    fresh = Fresh(configuration)
    return grpc.dynamic_ssl_server_credentials(fresh(), fresh, not public)


def channel_credentials(found: "Certificates") -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(found.ca, found.key, found.cert)


class Certificates(NamedTuple):
    """In PEM."""

    cert: bytes
    key: bytes
    ca: bytes


def certificates(environ: Mapping[str, str] = os.environ) -> Certificates | None:
    """None without TLS. Raises FailedPrecondition when they cannot be read, or do not belong together."""
    named = [environ.get(name, "") for name in _TLS]
    if not any(named):
        return None
    if not all(named):
        raise FailedPrecondition(f"TLS between services needs all of {', '.join(_TLS)}")
    try:
        cert, key, ca = (Path(name).read_bytes() for name in named)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*named[:2])
    except OSError as error:  # ssl's own errors are of this class
        raise FailedPrecondition(f"a certificate cannot be used: {error}") from error
    return Certificates(cert, key, ca)
