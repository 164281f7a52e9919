"""Errors that the SDK raises."""

from collections.abc import Mapping, Sequence


class RatchetClientError(Exception):
    """The base of every error of the SDK; its text is for the user."""


class ApiError(RatchetClientError):
    """The platform refused a request.

    `status`: of HTTP, 0 over gRPC; `code`: the name of the gRPC status; `violations`: every field at fault, each a
    mapping with "field" and "description".
    """

    def __init__(self, status: int, code: str, message: str, violations: Sequence[Mapping[str, str]] = ()) -> None:
        unsaid = [violation for violation in violations if violation["description"] not in message]
        details = "".join(f"\n  {violation['field']}: {violation['description']}" for violation in unsaid)
        super().__init__(message + details)
        self.status = status
        self.code = code
        self.violations = tuple(violations)


class Unreachable(RatchetClientError):
    """Nothing answers at the address of the platform, or the connection broke."""
