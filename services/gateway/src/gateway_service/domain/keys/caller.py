"""Who calls: the API key of the call that is being answered, whatever door it came through."""

from contextvars import ContextVar
from datetime import UTC, datetime

from gateway_service.domain.keys.key import ApiKey, Scope

ANYBODY = ApiKey("", "anybody", "", "", frozenset(Scope), datetime.fromtimestamp(0, UTC))
"""Who calls where keys are turned off, and what the gateway does for itself."""

_caller: ContextVar[ApiKey] = ContextVar("caller", default=ANYBODY)


def caller() -> ApiKey:
    """The key of the present call."""
    return _caller.get()


def set_caller(key: ApiKey) -> None:
    """For the rest of the present task: each call has one of its own."""
    _caller.set(key)
