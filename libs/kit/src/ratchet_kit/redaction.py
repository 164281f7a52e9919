"""Texts without e-mail addresses, and without keys and tokens. Needs the extra `redaction`."""

import re
from collections.abc import Sequence
from functools import cache

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

EMAIL = "<email>"
SECRET = "<secret>"

# An @ as it is and as URLs, HTML and string literals write it.
_AT = r"(?:@|＠|%(?:25){0,3}40|&(?:#64|#[xX]40|commat);|\\(?:u0040|x40))"
# Bounded, and only from the begin of a word on, which may be an escape's end: its time grows with the text and no
# faster.
_BEGIN = r"(?:(?<![\w.+%-])|(?<=%[0-9a-fA-F]{2})|(?<=%)(?![0-9a-fA-F]{2}))"
_LOCAL = r"(?:[\w.+-]|%(?:25){0,3}2[bB]){1,64}+"
_HOST = r"(?:[^\W_][\w-]{0,62}(?:\.|%2[eE])){1,8}(?:xn--[^\W_]{2,59}|[^\W\d_]{2,24})(?![^\W_])"
_EMAIL = re.compile(_BEGIN + _LOCAL + _AT + _HOST)
_ANY_AT = re.compile(_AT)
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
_GAP = r"(?: |\+|%20)"
_PRIVATE = rf"{_GAP}(?:[A-Z0-9]{{1,12}}{_GAP}){{0,3}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?[- ]?-{{4,5}}"
_OWN = (
    re.compile(rf"-{{4,5}} ?BEGIN{_PRIVATE}(?:(?!----)[\s\S])*(?:-{{4,5}} ?END{_PRIVATE})?"),
    re.compile(r"PuTTY-User-Key-File-\d(?:(?!Private-MAC)[\s\S])*(?:Private-MAC: [0-9a-f]+)?"),
    re.compile(r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    re.compile(r"\brk_[0-9a-f]{64}\b"),  # of Ratchet's own gateway
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.(?:[\w-]{8,}+|(?=\.[\w-]))(?:\.[\w-]++){0,3}"),
    re.compile(r"(?<=_authToken=)[\w-]{8,}|\bnpm_\w{30,}"),
    re.compile(r"(?<![\w-])\d{8,10}:[\w-]{35}(?![\w-])"),
)
# What keys and tokens begin with, and what follows, as their makers write them: newer than detect-secrets, or longer.
_FORMS = (
    r"sk-(?:ant|proj|svcacct|admin|None|or-v\d)-[\w-]{16,}",  # Anthropic, OpenAI, OpenRouter
    r"sk-[A-Za-z0-9]{32,}",  # OpenAI, DeepSeek
    r"gsk_\w{40,}",  # Groq
    r"xai-\w{60,}",
    r"pplx-\w{40,}",  # Perplexity
    r"nvapi-[\w-]{60,}",
    r"r8_\w{37,}",  # Replicate
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{30,}",
    r"AIza[\w-]{35,}",  # Google
    r"GOCSPX-[\w-]{28,}",
    r"ya29\.[\w-]{20,}",
    r"1//0[\w-]{40,}",
    r"ABSK[\w+/=]{100,}",  # AWS Bedrock
    r"github_pat_\w{22,}",
    r"gh[pousr]_\w{36,}",
    r"gl(?:pat|dt|ft|ffct|soat|rt|rtr|cbt|imt|ptt|agent|oas|wt)-[\w-]{20,}(?:\.[\w-]+)*",  # GitLab
    r"xox[a-z](?:\.xox[a-z])?-[\w%-]{10,}",  # Slack
    r"xapp-\d-[\w-]{20,}",
    r"sk_test_\w{20,}",  # Stripe
    r"rk_test_\w{20,}",
    r"whsec_[\w+/=]{24,}",
    r"do[opr]_v1_[0-9a-f]{64}",  # DigitalOcean
    r"dckr_[po]at_[\w-]{20,}",  # Docker
    r"lin_(?:api|oauth)_\w{32,}",  # Linear
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # Shopify
    r"dapi[0-9a-f]{32}(?:-\d)?",  # Databricks
    r"hv[sbr]\.[\w-]{24,}",  # Vault
    r"ATATT3[\w=-]{50,}",  # Atlassian
)
_KEY = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_FORMS)})")
# AWS's have no form of their own: by the name before them, which goes with them.
_NAMED = re.compile(r"(?:aws_?)?(?:secret_?access_?key|session_?token)\W{1,8}[\w/+]{40,}={0,2}", re.IGNORECASE)


def emails(text: str) -> str:
    """Without e-mail addresses."""
    return _EMAIL.sub(EMAIL, text) if _ANY_AT.search(text) else text


def has_email(text: str) -> bool:
    return bool(_ANY_AT.search(text) and _EMAIL.search(text))


def has_secret(text: str) -> bool:
    """True where `secrets` takes something out."""
    return any(pattern.search(text) for pattern in _patterns())


def secrets(text: str) -> str:
    """Without keys and tokens of known forms (detect-secrets' patterns: cloud, code hosts, chat, payment, JSON web
    tokens, passwords in URLs), private keys, and keys of Ratchet's gateway. A password without a form stays."""
    for pattern in _patterns():
        text = pattern.sub(SECRET, text)
    return text


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Ours, and those of the detectors that know a secret by its form."""
    kinds = get_mapping_from_secret_type_to_class().values()
    used = [kind for kind in kinds if issubclass(kind, RegexBasedDetector) and kind.__name__ not in _NOT_USED]
    return [*_OWN, _KEY, _NAMED, *(pattern for kind in used for pattern in kind.denylist)]
