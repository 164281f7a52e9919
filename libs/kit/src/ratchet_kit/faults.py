"""Validation that names every field at fault at once, each by its path in the request."""

from collections.abc import Callable, Iterable, Sized
from datetime import timedelta
from math import isfinite
from typing import TypeVar

from ratchet_kit.errors import FieldViolation, InvalidArgument

T = TypeVar("T")
V = TypeVar("V")
N = TypeVar("N", int, float, timedelta)


MAX_REASON = 2000
"""Characters of why somebody does something, and of what people write about a thing."""


def check_reason(reason: str) -> str:
    """The reason itself. Raises InvalidArgument for one that is too long: it is kept for good, and shown in lists."""
    faults = Faults()
    faults.length("reason", reason, MAX_REASON)
    faults.raise_if_any()
    return reason


class Faults:
    """Collects what is wrong with a request.

    faults = Faults()
    spec = faults.under("spec")
    spec.required("output_model", request.spec.output_model)
    spec.bounds("steps", request.spec.steps, at_least=1)     # spec.steps must be 1 or more
    faults.raise_if_any()
    """

    def __init__(self, prefix: str = "", found: list[FieldViolation] | None = None) -> None:
        """`prefix` stands before every field that is added here; `found` is the list to add to."""
        self._prefix = prefix
        self._found = [] if found is None else found

    def under(self, prefix: str) -> "Faults":
        """The same collection; what is added here has `prefix` and a dot before its field."""
        return Faults(f"{self._prefix}{prefix}.", self._found)

    @property
    def violations(self) -> tuple[FieldViolation, ...]:
        """All that was found so far, whatever its prefix."""
        return tuple(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, field: str, description: str) -> None:
        """`description` goes on after the field's path: "must be 1 or more"."""
        self._found.append(FieldViolation(f"{self._prefix}{field}", description))

    def extend(self, violations: Iterable[FieldViolation]) -> None:
        """Adds what was found elsewhere, below this prefix."""
        for violation in violations:
            self.add(violation.field, violation.description)

    def unless(self, condition: object, field: str, description: str) -> bool:
        """Adds the fault unless `condition` holds. True when it does."""
        if not condition:
            self.add(field, description)
        return bool(condition)

    def required(self, field: str, value: object) -> bool:
        """`value` must not be empty. True when it is not."""
        return self.unless(value, field, "must not be empty")

    def length(self, field: str, value: Sized, at_most: int) -> bool:
        """`value` is a text of at most so many characters, none of them NUL (which SQL does not keep), or a list or a
        map of so many entries. True when it is."""
        if isinstance(value, str) and "\0" in value:
            self.add(field, "must not hold NUL")
            return False
        what = "characters" if isinstance(value, str) else "entries"
        return self.unless(len(value) <= at_most, field, f"must have at most {at_most} {what}")

    def one_of(self, field: str, value: str, choices: Iterable[str]) -> bool:
        """`value` must be one of `choices`. True when it is."""
        choices = list(choices)
        return self.unless(value in choices, field, f"must be one of {', '.join(choices)}; not {value[:80]!r}")

    def bounds(
        self,
        field: str,
        value: N,
        *,
        at_least: N | None = None,
        above: N | None = None,
        at_most: N | None = None,
        below: N | None = None,
    ) -> bool:
        """A number or a duration within bounds; one that is not finite is outside of any. True when it is within."""
        within = (
            (isinstance(value, timedelta) or isfinite(value))
            and (at_least is None or value >= at_least)
            and (above is None or value > above)
            and (at_most is None or value <= at_most)
            and (below is None or value < below)
        )
        return self.unless(within, field, _rule(at_least, above, at_most, below))

    def read(self, field: str, parse: Callable[[V, str], T], value: V) -> T | None:
        """What `parse(value, field)` gives, as the functions of `ratchet_kit.names` and `ratchet_kit.refs` do. None,
        and its faults are added, where it raises InvalidArgument."""
        try:
            return parse(value, field)
        except InvalidArgument as error:
            if error.violations:
                self.extend(error.violations)
            else:
                self.add(field, error.message)
            return None

    def raise_if_any(self, what: str = "") -> None:
        """Raises InvalidArgument that holds all of them; `what` begins its sentence: "the run cannot be made"."""
        if self._found:
            sentence = "; ".join(f"{fault.field} {fault.description}" for fault in self._found)
            raise InvalidArgument(f"{what}: {sentence}" if what else sentence, self._found)


def _rule(at_least: N | None, above: N | None, at_most: N | None, below: N | None) -> str:
    if at_least is not None and at_most is not None:
        return f"must be from {_text(at_least)} to {_text(at_most)}"
    low = f"{_text(at_least)} or more" if at_least is not None else f"above {_text(above)}" if above is not None else ""
    high = f"at most {_text(at_most)}" if at_most is not None else f"below {_text(below)}" if below is not None else ""
    return f"must be {' and '.join(part for part in (low, high) if part) or 'finite'}"


def _text(value: int | float | timedelta) -> str:
    return f"{value.total_seconds():g} s" if isinstance(value, timedelta) else str(value)
