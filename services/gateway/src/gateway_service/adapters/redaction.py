"""The redactions that are kept here, and operators' own: functions from a text to the text that may be written."""

import pkgutil
import re
from collections.abc import Callable, Sequence
from functools import cache

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

from gateway_service.domain.keys.key import PREFIX
from gateway_service.domain.traffic.redaction import Redact
from ratchet_kit.errors import FailedPrecondition

EMAIL = "<email>"
SECRET = "<secret>"

# Bounded, and only from the begin of a word on: its time grows with the text and no faster.
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
# Detectors of detect-secrets that are not used. The patterns below take the place of some: that of private keys knows
# their begin alone, those of JSON web tokens and npm take the square of a line's length, Telegram's needs a line of its
# own. Those of IBM's and Artifactory's names take four times as long as all others together. An address is no secret.
_NOT_USED = {
    "ArtifactoryDetector",
    "CloudantDetector",
    "IPPublicDetector",
    "IbmCloudIamDetector",
    "IbmCosHmacDetector",
    "JwtTokenDetector",
    "NpmDetector",
    "PrivateKeyDetector",
    "SoftlayerDetector",
    "TelegramBotTokenDetector",
}
_PRIVATE = r"-----{} [A-Z ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----"
_OWN = (
    re.compile(f"{_PRIVATE.format('BEGIN')}(?:(?!-----)[\\s\\S])*(?:{_PRIVATE.format('END')})?"),
    re.compile(rf"\b{PREFIX}[0-9a-f]{{64}}\b"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"),
    re.compile(r"(?<=_authToken=)[\w-]{8,}|\bnpm_\w{30,}"),
    re.compile(r"(?<![\w-])\d{8,10}:[\w-]{35}(?![\w-])"),
)


def emails(text: str) -> str:
    """Without e-mail addresses."""
    return _EMAIL.sub(EMAIL, text) if "@" in text else text


def secrets(text: str) -> str:
    """Without keys and tokens of known forms (detect-secrets' patterns: cloud, code hosts, chat, payment, JSON web
    tokens, passwords in URLs), private keys, and keys of this gateway. A password without a form stays."""
    for pattern in _patterns():
        text = pattern.sub(SECRET, text)
    return text


KEPT = {"emails": emails, "secrets": secrets}


def steps(names: Sequence[str]) -> Sequence[Redact]:
    """Of names of those here, or "package.module:function" of an operator's. Raises FailedPrecondition for a name that
    leads to no function."""
    return [KEPT[name] if name in KEPT else _own(name) for name in names]


def _own(name: str) -> Callable[[str], str]:
    try:
        found = pkgutil.resolve_name(name)
    except (ValueError, ImportError, AttributeError) as error:
        choices = ", ".join(KEPT)
        raise FailedPrecondition(
            f"RATCHET_GATEWAY_REDACT: {name!r} is neither of {choices} nor package.module:function: {error}"
        ) from error
    if not callable(found):
        raise FailedPrecondition(f"RATCHET_GATEWAY_REDACT: {name} is no function")
    return found  # type: ignore[no-any-return]


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Ours, and those of the detectors that know a secret by its form."""
    kinds = get_mapping_from_secret_type_to_class().values()
    used = [kind for kind in kinds if issubclass(kind, RegexBasedDetector) and kind.__name__ not in _NOT_USED]
    return [*_OWN, *(pattern for kind in used for pattern in kind.denylist)]
