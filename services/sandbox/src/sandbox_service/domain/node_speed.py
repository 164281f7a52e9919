"""How fast this node is, against its own fork limit."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import Unavailable
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.ports import Executor
from sandbox_service.domain.program import Asserted, CallTest, CheckTest, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

_SOURCE = """
def f(x):
    return x + 1

if __name__ == "__main__":
    print(f(int(input())))
"""
_BATCH = 64
_TRIVIAL = Program("", _SOURCE, "f", tuple(CallTest((x,), x + 1) for x in range(3)))
KINDS = {
    "call tests": _TRIVIAL,
    "stdio test": replace(_TRIVIAL, tests=(StdioTest("1", "2"),)),
    "check test": replace(_TRIVIAL, tests=(CheckTest("assert f(1) == 2"),)),  # its code is run
    "check test, asserted": replace(_TRIVIAL, tests=(CheckTest("assert f(1) == 2", asserted=(Asserted((1,), 2),)),)),
    "processes allowed": replace(_TRIVIAL, processes=True),
}
"""A trivial program, three call tests unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """`rate`: programs a second on all lanes. `p50` and `p99`: of one program at a time, nothing else under way."""

    name: str
    rate: float
    of_limit: float
    p50: timedelta = timedelta()
    p99: timedelta = timedelta()


class Benchmark:
    def __init__(self, sandbox: Sandbox, executor: Executor) -> None:
        self._sandbox, self._executor = sandbox, executor

    async def run(self, count: int) -> AsyncIterator[Measurement]:
        """`count` programs for each kind. The fork limit is taken before and after each and averaged: other work on the
        machine moves them all.

        Raises Unavailable if the platform failed, or a trivial program did.
        """
        before = await self._executor.fork_limit(count)
        yield Measurement("fork limit", before, 1.0)
        for name, program in KINDS.items():
            if program.processes and not self._executor.capabilities.processes:
                continue
            await _run(self._sandbox, program, _BATCH)
            rate = await _run(self._sandbox, program, count)
            after = await self._executor.fork_limit(count)
            p50, p99 = await _latency(self._sandbox, program, max(count // 4, 1))
            yield Measurement(name, rate, 2 * rate / (before + after), p50, p99)
            before = after


async def _run(sandbox: Sandbox, program: Program, count: int) -> float:
    started = time.perf_counter()
    for first in range(0, count, _BATCH):
        for item in await sandbox.execute_batch([program] * min(_BATCH, count - first)):
            _demand_pass(item)
    return count / (time.perf_counter() - started)


async def _latency(sandbox: Sandbox, program: Program, count: int) -> tuple[timedelta, timedelta]:
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        _demand_pass(await sandbox.execute(program))
        seconds.append(time.perf_counter() - started)
    seconds.sort()
    return timedelta(seconds=seconds[len(seconds) // 2]), timedelta(seconds=seconds[len(seconds) * 99 // 100])


def _demand_pass(item: object) -> None:
    if not isinstance(item, Execution) or item.verdict is not Verdict.PASSED:
        raise Unavailable(f"the trivial program did not pass: {item}")
