"""Parameters of the APIs that are spoken here that this gateway does not have."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_sessions.doors.errors import NOT_HERE, UnsupportedParameter


def refuse_unsupported(
    extra: Mapping[str, Any] | None,
    ignored: Collection[str],
    neutral: Mapping[str, tuple[Any, ...]],
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises InvalidArgument that names the first parameter that is not offered.

    `extra`: the parameters beyond those that are read. `ignored`: change no answer, whatever their value. `neutral`: by
    name the values that change nothing, as null does. `reasons`: by name why it is not offered, and what to do instead.
    """
    for name, value in (extra or {}).items():
        if name in ignored:
            continue
        if name not in neutral:
            text = f"Unrecognized request argument supplied: {name}"
            raise InvalidArgument(text, [FieldViolation(name, "is not known")])
        if value is not None and value not in neutral[name]:
            raise UnsupportedParameter(name, reasons.get(name, NOT_HERE))
