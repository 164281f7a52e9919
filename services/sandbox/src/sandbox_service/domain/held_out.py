"""How often held-out tests may be tried. Each try tells whether they passed: with enough of them, what they are."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ratchet_kit import metrics
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.logs import get_logger
from sandbox_service.cage.wire import codec
from sandbox_service.domain.program import CallTest, CheckTest, Program, Test

log = get_logger(__name__)
_tried = metrics.counter("sandbox_held_out_attempts", "Programs that were run against held-out tests")
_refused = metrics.counter("sandbox_held_out_refused", "Programs refused since held-out tests had been tried too often")

_DAY = 86400.0  # seconds
_MOST_KEPT = 100_000
_SEPARATOR = b"\0"


@dataclass(slots=True)
class _Count:
    """Mutable: it counts."""

    since: float
    attempts: int = 0


class Attempts:
    """Counts, by caller and by the held-out tests themselves, in this process, from the first of a day on."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: attempts within a day; 0 bounds nothing. `clock` gives seconds."""
        self._limit = limit
        self._clock = clock
        self._counts: OrderedDict[tuple[str, bytes], _Count] = OrderedDict()

    def count(self, program: Program, caller: str) -> None:
        """Raises ResourceExhausted beyond the bound. A program without held-out tests counts for nothing."""
        tests = [test for test in program.tests if test.held_out]
        if not tests:
            return
        key, now = (caller, _digest(tests)), self._clock()
        count = self._counts.get(key)
        if count is None or now - count.since >= _DAY:
            count = self._counts[key] = _Count(now)
        self._counts.move_to_end(key)
        while len(self._counts) > _MOST_KEPT:
            self._counts.popitem(last=False)
        if self._limit and count.attempts >= self._limit:
            _refused.inc()
            raise ResourceExhausted(
                f"{caller or 'this caller'} has tried these held-out tests {count.attempts} times within a day, the "
                "bound here (RATCHET_SANDBOX_HELD_OUT_ATTEMPTS): try again tomorrow, or let the operator raise it"
            )
        count.attempts += 1
        _tried.inc()
        if count.attempts in (1, 10, 100) or count.attempts % 1000 == 0:
            log.info("held_out.attempts", caller=caller, tests=key[1].hex()[:12], attempts=count.attempts)


def _digest(tests: list[Test]) -> bytes:
    digest = hashlib.sha256()
    for test in tests:
        for part in _parts(test):
            digest.update(part.encode("utf-8", "surrogatepass") + _SEPARATOR)
    return digest.digest()


def _parts(test: Test) -> tuple[str, ...]:
    if isinstance(test, CallTest):
        return "call", codec.dumps(test.args), codec.dumps(test.expected), test.raises
    if isinstance(test, CheckTest):
        return "check", test.code
    return "stdio", test.stdin, test.expected_stdout
