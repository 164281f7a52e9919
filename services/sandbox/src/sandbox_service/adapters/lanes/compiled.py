"""Test code, compiled once for all the programs that it judges.

That is done in a process of the lane that has no program in it and runs nothing of the code: so no program can reach
what the tests of others are made of. Here it is bytes, which nobody reads but later processes of tests.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import timedelta

from sandbox_service.adapters.lanes.protocol import Job
from sandbox_service.domain.jobs import CheckJob, Command, CompileJob, Report, Returned
from sandbox_service.domain.program import Limits

_MOST_BYTES = 64 << 20
_EACH = 256  # bytes that an entry takes beside what it holds
_LIMITS = Limits(cpu_time=timedelta(seconds=10), memory_bytes=1 << 30)
_Run = Callable[[CompileJob], Awaitable[Callable[[], Report]]]


class CompiledTests:
    """Those used last, `most_bytes` of them in all."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._bytes, self._most_bytes = 0, most_bytes

    async def of(self, job: Job | Command, run: _Run) -> bytes:
        """For a check job, what `run` makes of its test code, or made of it before; nothing for tests in the program's
        own process, other jobs, and code that doesn't compile within its limits. Raises what `run` raises."""
        if not isinstance(job, CheckJob) or job.shared:
            return b""
        # by the runtime, too, as each has a Python of its own
        key = (job.setting.runtime, hashlib.sha256(job.code.encode("utf-8", "surrogatepass")).digest())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        read = await run(CompileJob(job.code, _LIMITS))
        compiled = _answer_of(read().read())
        self._keep(key, compiled)
        return compiled

    def _keep(self, key: tuple[str, bytes], compiled: bytes) -> None:
        if key not in self._kept:  # as two lanes may compile it at a time
            self._kept[key] = compiled
            self._bytes += len(compiled) + _EACH
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest) + _EACH


def _answer_of(report: Report) -> bytes:
    match report.answers:
        case (Returned(str(digits)),):
            return bytes.fromhex(digits)
    return b""
