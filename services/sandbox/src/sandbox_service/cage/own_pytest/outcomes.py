"""How tests of pytest end, other than by passing."""

from typing import Any

_count: Any = None  # counting.Count: where failures are on record


class Unsupported(BaseException):
    """Test code asks for what isn't offered here: no Exception, so that no test catches it by chance."""


class Skipped(BaseException):
    """Raised by skip()."""


class Failed(AssertionError):
    """Raised by fail(), and where an expected exception did not come."""

    def __init__(self, *message: object) -> None:
        super().__init__(*message)
        if _count is not None:
            _count.note(self)


def record_in(count: Any) -> None:
    """From now on. None: nowhere."""
    global _count
    _count = count


def forgive(error: BaseException) -> None:
    """It was expected."""
    if _count is not None:
        _count.forgive(error)


def with_name(error: BaseException, name: str) -> BaseException:
    """The exception with the test's name before its message, where it has a plain one."""
    if isinstance(error, Exception) and len(error.args) <= 1:
        error.args = (f"{name}: {error}" if error.args else name,)
    return error
