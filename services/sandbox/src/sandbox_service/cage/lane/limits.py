"""What a job has left of its time and memory."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from sandbox_service.cage.lane.child import Child
from sandbox_service.cage.lane.cpu_time import Account
from sandbox_service.cage.lane.process_tree import ProcessTree


class Limits(NamedTuple):
    """Of a job: seconds, and bytes."""

    cpu: float
    idle: float
    wall: float
    memory: int


class Budget:
    """The time of a job: CPU seconds of the program and as many of the tester, seconds in which neither wanted the
    processor, and seconds on the clock.

    A program is judged by what it computes and by how long it idles, not by how long others kept it from the
    processor: the time since the last look is idle if no thread runs or waits for the processor now. Looks come at
    random, so that none can be awake for them alone. The bound on the clock is the last resort.
    """

    _SHORTEST, _LONGEST = 0.01, 0.03  # seconds between two looks
    _LONGEST_INTERVAL = 0.25
    _SLACK = 64 << 20  # bytes: libraries, which are resident but nobody's own

    def __init__(
        self,
        children: list[Child],
        limits: Limits,
        tree: ProcessTree,
        account: Account | None,
        zygote: int,
        files: Callable[[], int],
    ) -> None:
        """`account`: what tells the program's time where it may start processes. `files`: bytes of its files that are
        in memory."""
        self._children, self._limits = children, limits
        self._tree, self._account, self._zygote, self._files = tree, account, zygote, files
        self._idle = limits.idle
        self._started = self._seen_at = time.monotonic()
        self._next_look = self._started + self._pause()
        self._used_before = account.seconds(zygote) if account else 0.0
        tree.forget()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def spent(self) -> str:
        """Which limit is reached: cpu, tests, memory, idle, wall, or none yet."""
        now = time.monotonic()
        if now >= self._next_look:
            self._look(now)
        if self.cpu() >= self._limits.cpu:
            return "cpu"
        if self.tests_cpu() >= self._limits.cpu:
            return "tests"
        if self._tree.memory > self._limits.memory:
            return "memory"
        if self._idle <= 0:
            return "idle"
        return "wall" if now - self._started >= self._limits.wall else ""

    def _look(self, now: float) -> None:
        self._tree.look(self._children, self._limits.memory, self._files())
        if not self._tree.busy:
            # a longer one means that this process itself did not run: a machine that slept, or a very busy one
            self._idle -= min(now - self._seen_at, self._LONGEST_INTERVAL)
        self._seen_at = now
        after = time.monotonic()
        self._next_look = after + self._pause() + 10 * (after - now)

    def _pause(self) -> float:
        return self._SHORTEST + (self._LONGEST - self._SHORTEST) * os.urandom(1)[0] / 255

    def patience(self) -> float:
        """Seconds until it's worth looking again. A program has one core: no faster than the clock runs."""
        return max(0.002, min(self._limits.cpu - self.cpu(), self._next_look - time.monotonic()))

    def cpu(self) -> float:
        """Seconds that the program has used, all its processes together."""
        own = self._children[0].cpu_so_far()
        if self._account:
            return max(own, self._account.seconds(self._zygote) - self._used_before - self.tests_cpu())
        return max(own, self._tree.cpu)

    def tests_cpu(self) -> float:
        """Seconds that the tester has used, where there's one."""
        return self._children[1].cpu_so_far() if len(self._children) > 1 else 0.0

    def final_cpu(self, strays: float) -> float:
        """Once all has ended. `strays`: seconds of processes that the program left behind."""
        if self._account:
            return self.cpu()
        return max(self._children[0].cpu + strays, self._tree.cpu)

    def overdrawn(self, cpu: float, max_rss: int) -> str:
        """Which limit was passed since the last look, by what has ended: `cpu` seconds, `max_rss` bytes resident."""
        if cpu > self._limits.cpu:
            return "cpu"
        return "memory" if max_rss > self._limits.memory + self._SLACK else ""
