"""The redactions that an operator names: those of the kit, and functions of their own."""

import pkgutil
from collections.abc import Callable, Sequence

from gateway_service.domain.traffic.redaction import Redact
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.redaction import emails, secrets

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
        raise FailedPrecondition(f"RATCHET_GATEWAY_REDACT: {name} is not a function")
    return found  # type: ignore[no-any-return]
