"""What the command and the SDK raise."""

from collections.abc import Mapping, Sequence


class CommandError(Exception):
    """One sentence for the user that says what is wrong and what to do; the command exits with `code`."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class ApiError(Exception):
    """The platform refused a request: `code` is the gRPC status name, `violations` the fields at fault."""

    def __init__(self, status: int, code: str, message: str, violations: Sequence[Mapping[str, str]] = ()) -> None:
        details = "".join(f"\n  {violation['field']}: {violation['description']}" for violation in violations)
        super().__init__(message + details)
        self.status = status
        self.code = code
        self.violations = tuple(violations)


class Unreachable(Exception):
    """No answer from the gateway at all."""
