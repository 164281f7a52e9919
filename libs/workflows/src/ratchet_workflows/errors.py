"""The errors of workflows, beside the client's. The text of each is a sentence for the user."""

from collections.abc import Iterator
from contextlib import contextmanager


class WorkflowError(Exception):
    """A stage failed, or the folder of the work cannot be used."""


class UsageError(WorkflowError):
    """The request itself is invalid: a field of a plan, the name of a model. Nothing was begun."""


MOST_FAULTS = 20
"""Faults of a file that are told at once."""


class Together:
    """Collects usage errors, so that all faults of a file are told at once, a line each.

    together = Together()
    for name in names:
        with together.one():
            check(name)
    together.raise_if_any()
    """

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Around a check, which may raise UsageError."""
        try:
            yield
        except UsageError as error:
            self._said |= dict.fromkeys(str(error).splitlines())

    def raise_if_any(self) -> None:
        """Raises UsageError with up to MOST_FAULTS lines."""
        if self._said:
            raise UsageError("\n".join(list(self._said)[:MOST_FAULTS]))
