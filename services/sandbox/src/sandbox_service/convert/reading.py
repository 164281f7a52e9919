"""Reading one request: what is at fault is collected, and each literal is parsed once."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ratchet.common.v1 import priority_pb2
from ratchet_kit.faults import Faults
from ratchet_kit.work import Priority
from sandbox_service.domain import test_code
from sandbox_service.domain.program import Limits

_T = TypeVar("_T")
_MAX_CALLER = 200
_PRIORITIES = {
    priority_pb2.PRIORITY_UNSPECIFIED: Priority.NORMAL,
    **{priority_pb2.Priority.Value(f"PRIORITY_{priority.name}"): priority for priority in Priority},
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the service takes: the largest limits, the longest source, test code or literal in bytes."""

    limits: Limits
    text_bytes: int


class Reading:
    """One request being read: its faults, its bounds, and the literals that it holds."""

    def __init__(self, bounds: Bounds, literal: Callable[[str], object]) -> None:
        """`literal` raises ValueError; it is called once for each text."""
        self.bounds = bounds
        self.literal = functools.cache(literal)
        self.faults = Faults()
        self._unread: list[test_code.Text] = []

    def test_code(self, code: str, entry_point: str, names: tuple[str, ...], shared: bool) -> test_code.TestCode:
        """As test_code.read; in place of long code that isn't kept, one that `finish` tells of."""
        try:
            return test_code.read(code, entry_point, names, shared)
        except test_code.Unread as error:
            self._unread += error.texts
            return test_code.TestCode(False, names)

    def finish(self) -> None:
        """Raises Unread, with all long test code that is to be read first; InvalidArgument, with all faults."""
        if self._unread:
            raise test_code.Unread(self._unread)
        self.faults.raise_if_any()

    def take(self, field: str, parse: Callable[[str], _T], text: str, stand_in: _T) -> _T:
        """What `parse` gives, which raises ValueError; or the stand-in, once the fault is noted."""
        if not self.fits(field, text):
            return stand_in
        try:
            return parse(text)
        except ValueError as error:
            self.faults.add(field, str(error))
            return stand_in

    def fits(self, field: str, text: str, most: int = 0) -> bool:
        """`most`: bytes, other than those of the bounds."""
        most = most or self.bounds.text_bytes
        # a UTF-8 character has at most 4 bytes: most texts needn't be encoded to be measured
        if len(text) * 4 <= most or len(text.encode()) <= most:
            return True
        self.faults.add(field, f"is longer than {most} bytes")
        return False


def caller_from_proto(named: str, peer: str) -> str:
    """As the request says, or the peer's address without its port: "ipv4:10.0.0.7". Raises InvalidArgument."""
    faults = Faults()
    fits = len(named) <= _MAX_CALLER and "\0" not in named
    faults.unless(fits, "caller", f"must have at most {_MAX_CALLER} characters, and no NUL")
    faults.raise_if_any()
    return named or peer.rpartition(":")[0]


def priority_from_proto(value: priority_pb2.Priority.ValueType, faults: Faults) -> Priority:
    """NORMAL in place of one that is none, once the fault is noted."""
    faults.unless(value in _PRIORITIES, "priority", f"must be a known priority, not {value}")
    return _PRIORITIES.get(value, Priority.NORMAL)
