"""What a job has left of its time and memory."""

import time

from child import Child
from process_tree import ProcessTree


class Budget:
    """The time of a job: CPU seconds, seconds in which it did nothing, and seconds on the clock.

    A program is judged by what it computes and by how long it idles, not by how long others kept it from the
    processor: an interval counts as idle only if the job used less than a twentieth of it. The bound on the clock is
    the last resort.
    """

    _INTERVAL, _LONGEST_INTERVAL, _IDLE_SHARE = 0.05, 0.25, 0.05
    _MEMORY_INTERVAL = 0.02

    def __init__(
        self,
        children: list[Child],
        cpu: float,
        idle: float,
        wall: float,
        tree: ProcessTree | None = None,
        memory: int = 0,
    ) -> None:
        """With a `tree`, the time and the memory of all its processes count, however they are related."""
        self._children = children
        self._tree, self._memory = tree, memory
        self._cpu, self._idle, self._wall = cpu, idle, wall
        self._started = self._seen_at = time.monotonic()
        self._seen_cpu = 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def spent(self) -> str:
        """Which limit is reached: memory, cpu, idle, wall, or none yet."""
        if self._tree:
            self._tree.look(self._memory)
            if self._tree.memory > self._memory:
                return "memory"
        cpu, now = self._cpu_so_far(), time.monotonic()
        passed = now - self._seen_at
        if passed >= self._INTERVAL:
            if cpu - self._seen_cpu < passed * self._IDLE_SHARE:
                # a longer one means that this process itself did not run: a machine that slept, or a very busy one
                self._idle -= min(passed, self._LONGEST_INTERVAL)
            self._seen_at, self._seen_cpu = now, cpu
        if cpu >= self._cpu:
            return "cpu"
        if self._idle <= 0:
            return "idle"
        return "wall" if self.elapsed >= self._wall else ""

    def patience(self) -> float:
        """Seconds until it's worth looking again. A program has one core: no faster than the clock runs."""
        longest = self._MEMORY_INTERVAL if self._tree else 2 * self._INTERVAL
        return max(0.005, min(self._cpu - self._cpu_so_far(), longest))

    def _cpu_so_far(self) -> float:
        cpu = sum(child.cpu_so_far() for child in self._children)
        return max(cpu, self._tree.cpu) if self._tree else cpu
