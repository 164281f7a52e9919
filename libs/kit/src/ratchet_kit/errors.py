"""The family of errors that the domain raises. Each says what went wrong, and none knows of gRPC or HTTP.

`ratchet_kit.grpc_errors` and the gateway each hold one table that turns these into status codes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta


class RatchetError(Exception):
    """The base of every error that a caller is meant to see; its text is one sentence for that caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One fault of a request. `field` is its path in the request, such as `spec.grpo.group_size`."""

    field: str
    description: str


class InvalidArgument(RatchetError):
    """The request is wrong whatever the state of the system; `violations` names every fault found."""

    def __init__(self, message: str, violations: Sequence[FieldViolation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


def invalid(field: str, description: str) -> InvalidArgument:
    """For one fault; `ratchet_kit.faults` collects several. `description` goes on after the field's path: "must be 1 or
    more"."""
    return InvalidArgument(f"{field} {description}", [FieldViolation(field, description)])


class NotFound(RatchetError):
    """What the request names does not exist."""


class AlreadyExists(RatchetError):
    """What the request would create exists, and is not the same."""


class FailedPrecondition(RatchetError):
    """The system is not in a state that allows this; sending it again changes nothing until the state does."""


class ResourceExhausted(RatchetError):
    """A quota or a capacity is used up. `retry_after` is when it is worth trying again, if that is known."""

    def __init__(self, message: str, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PermissionDenied(RatchetError):
    """The caller is known and may not do this."""


class Unauthenticated(RatchetError):
    """The caller is not known."""


class Unavailable(RatchetError):
    """A part of the platform cannot be reached now. Sending the same again, after a while, is right."""


class DeadlineExceeded(RatchetError):
    """The time given for this is over; it may or may not have taken effect."""


class Unimplemented(RatchetError):
    """This is not offered here."""


class Aborted(RatchetError):
    """Somebody else changed the same thing at the same time, or took it over: read again, then decide."""


class DataLoss(RatchetError):
    """Stored or sent data is not what it was: a checksum does not match."""


class Cancelled(RatchetError):
    """The work was cancelled before its end."""


class Internal(RatchetError):
    """Something that must hold does not. The text is for the log; a remote caller gets a fixed one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why long work failed, as a store keeps it."""

    code: str
    """The name of the error in capitals: "UNAVAILABLE", "INVALID_ARGUMENT"."""
    message: str
    """One sentence."""

    @classmethod
    def of(cls, error: RatchetError) -> "Failure":
        """A class that is not of this module counts as its nearest base that is."""
        kind = next(base for base in type(error).__mro__ if base.__module__ == __name__)
        return cls(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper(), error.message)
