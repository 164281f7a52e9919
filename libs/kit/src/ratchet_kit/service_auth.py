"""How services know one another: a token that all share and each call carries, and certificates where that is set.

The token is RATCHET_SERVICE_TOKEN, or what RATCHET_SERVICE_TOKEN_FILE holds; without either it is in `service.token` of
RATCHET_HOME (~/.ratchet), made at the first use. A service that calls no other is better given
RATCHET_SERVICE_TOKEN_DIGEST alone, which does not reveal the token: the sandbox, where strangers' code runs.

RATCHET_TLS_CERT_FILE, RATCHET_TLS_KEY_FILE and RATCHET_TLS_CA_FILE, set together, put TLS with certificates of both
sides around every call between services. Each certificate is one of the CA's, for the name TLS_NAME.
"""

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import grpc

from ratchet_kit import files
from ratchet_kit.errors import FailedPrecondition

TOKEN = "RATCHET_SERVICE_TOKEN"
TOKEN_FILE = "RATCHET_SERVICE_TOKEN_FILE"
DIGEST = "RATCHET_SERVICE_TOKEN_DIGEST"
MIN_TOKEN = 32
"""Characters."""
TLS_NAME = "ratchet.internal"
"""What every service's certificate is for: clients look for this name, whatever the address."""
_TLS = ("RATCHET_TLS_CERT_FILE", "RATCHET_TLS_KEY_FILE", "RATCHET_TLS_CA_FILE")


def token(environ: Mapping[str, str] = os.environ) -> str:
    """The token of this process. Raises FailedPrecondition when it cannot be read, or is too short."""
    if not (found := environ.get(TOKEN, "")):
        own, named = files.home(environ) / "service.token", environ.get(TOKEN_FILE)
        try:
            found = Path(named).read_text().strip() if named else files.secret(own, new_token)
        except OSError as error:
            raise FailedPrecondition(f"the services' token cannot be read ({TOKEN_FILE}): {error}") from error
    if len(found) < MIN_TOKEN:
        raise FailedPrecondition(
            f"the services' token must have {MIN_TOKEN} characters or more ({TOKEN}, {TOKEN_FILE})"
        )
    return found


def new_token() -> str:
    """256 random bits."""
    return secrets.token_hex(32)


def digest_of(token: str) -> str:
    """sha256, hex: enough for a token that cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def expected_digest(environ: Mapping[str, str] = os.environ) -> str:
    """What `digest_of` a caller's token must be. Raises FailedPrecondition."""
    return environ.get(DIGEST) or digest_of(token(environ))


def server_credentials(public: bool, environ: Mapping[str, str] = os.environ) -> grpc.ServerCredentials | None:
    """None without TLS. `public`: callers from outside have no certificate. Raises FailedPrecondition."""
    found = _tls(environ)
    if found is None:
        return None
    cert, key, ca = found
    return grpc.ssl_server_credentials([(key, cert)], None if public else ca, not public)


def channel_credentials(environ: Mapping[str, str] = os.environ) -> grpc.ChannelCredentials | None:
    """None without TLS. Raises FailedPrecondition."""
    found = _tls(environ)
    if found is None:
        return None
    cert, key, ca = found
    return grpc.ssl_channel_credentials(ca, key, cert)


def _tls(environ: Mapping[str, str]) -> tuple[bytes, bytes, bytes] | None:
    named = [environ.get(name, "") for name in _TLS]
    if not any(named):
        return None
    if not all(named):
        raise FailedPrecondition(f"TLS between services needs all of {', '.join(_TLS)}")
    try:
        cert, key, ca = (Path(name).read_bytes() for name in named)
    except OSError as error:
        raise FailedPrecondition(f"a certificate cannot be read: {error}") from error
    return cert, key, ca
