"""The references of a split as they ran in a sandbox: whether they pass, how, and with how much time and memory."""

import math
from dataclasses import asdict, dataclass
from datetime import timedelta

from ratchet_kit.faults import Faults
from ratchet_problems.balance import Quantiles

_LEAST_TIME = timedelta(seconds=1)
_LEAST_MEMORY = 256 << 20
_STEP_OF_MEMORY = 64 << 20


@dataclass(frozen=True, slots=True)
class ReferenceRuns:
    """A report of who ran them."""

    problems: int
    """Problems whose reference was run."""
    strict: int
    """Problems whose reference passes tests apart from its process."""
    shared: int
    """Problems whose reference passes in the process of the tests alone: a program could forge its results."""
    cpu_time: Quantiles | None = None
    """Seconds of each reference that passes, with all tests; None where it was not measured."""
    memory_bytes: Quantiles | None = None
    """Peak of resident memory, likewise."""

    def check(self, faults: Faults, rows: int) -> None:
        """`rows`: of the split."""
        faults.bounds("runs.problems", self.problems, at_least=0, at_most=rows)
        faults.bounds("runs.strict", self.strict, at_least=0, at_most=max(0, self.problems))
        faults.bounds("runs.shared", self.shared, at_least=0, at_most=max(0, self.problems - self.strict))
        for field in ("cpu_time", "memory_bytes"):
            if quantiles := getattr(self, field):
                values = list(asdict(quantiles).values())
                rise = all(map(math.isfinite, values)) and values == sorted(values) and values[0] >= 0
                faults.unless(rise, f"runs.{field}", "must be finite, not negative, and rise")

    @property
    def cpu_time_limit(self) -> timedelta | None:
        """A limit for programs on these problems: twice the slowest reference or ten times what 95 % take, whichever is
        more. None where nothing was measured."""
        if (found := self.cpu_time) is None:
            return None
        return max(_LEAST_TIME, timedelta(seconds=math.ceil(max(2 * found.most, 10 * found.p95))))

    @property
    def memory_limit_bytes(self) -> int:
        """Twice the largest reference, in steps of 64 MiB. 0 where nothing was measured."""
        if (found := self.memory_bytes) is None:
            return 0
        return max(_LEAST_MEMORY, math.ceil(2 * found.most / _STEP_OF_MEMORY) * _STEP_OF_MEMORY)
