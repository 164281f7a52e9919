"""Where webhooks may lead: below the URLs that the operator named.

A webhook is called from inside the platform's network. As with models (`ratchet_kit.allowed_sources`), the host is
never the caller's to choose, so that no name is resolved and no address judged: an operator's own host may well be a
private one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ratchet_kit.errors import FieldViolation, InvalidArgument

SETTING = "RATCHET_GATEWAY_WEBHOOK_URLS"
MAX_URL = 2000
"""Characters."""

_URL = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:/[^\s?#\\]*)?)(\?[^\s#\\]*)?", re.I)
_PORTS = {"https": 443, "http": 80}
_STEPS = re.compile(r"%(25)*(2e|2f|5c)", re.I)
"""Also what some proxy decodes twice."""
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class _Parts:
    origin: tuple[str, str, int]
    names: tuple[str, ...]
    """Of its path."""


class Addresses:
    """The URLs below which endpoints may lie."""

    def __init__(self, roots: Iterable[str]) -> None:
        """`roots`: such as https://hooks.example.com/ratchet; the empty ones are left out. http:// is for endpoints in
        a network of one's own. Raises InvalidArgument for one that is no such URL."""
        self._roots: list[_Parts] = []
        for root in filter(None, (root.strip() for root in roots)):
            parts = _parts(root)
            if parts is None or "?" in root:
                raise InvalidArgument(f"{SETTING}: {root} must be a URL with https:// or http:// and a host")
            self._roots.append(parts)

    def check(self, url: str, field: str = "url") -> str:
        """The URL itself. Raises InvalidArgument for one that lies elsewhere."""
        parts = _parts(url)
        if parts is None or not any(_is_below(parts, root) for root in self._roots):
            rule = f"must begin with a URL that this gateway may call ({SETTING}, see docs/webhooks.md)"
            raise InvalidArgument(f"{field} {rule}", [FieldViolation(field, rule)])
        return url


def _is_below(parts: _Parts, root: _Parts) -> bool:
    return parts.origin == root.origin and parts.names[: len(root.names)] == root.names


def _parts(url: str) -> _Parts | None:
    """None for what is no plain URL: with a user, a fragment, or a path that leads upwards."""
    found = _URL.fullmatch(url)
    if found is None or len(url) > MAX_URL or not url.isascii() or _CONTROL.search(url):
        return None
    protocol, host, port, path, _ = found.groups()
    names = path.split("/")[1:]
    # Servlets read "..;x" as "..".
    if any(name.partition(";")[0] in (".", "..") for name in names) or _STEPS.search(path):
        return None
    origin = (protocol.lower(), host.lower(), int(port or _PORTS[protocol.lower()]))
    return _Parts(origin, tuple(filter(None, names)))
