"""What it takes to draw elements out of the program: what it gives may never end, and costs the tests as much as it.

Of the CPU time that a program may take, the tests' process may spend half on drawing: beyond that the program is too
slow. The other half is about what the program takes itself to give so many. What the tests do with an element is
their own time.
"""

import time

from sandbox_service.cage.objects import series

_cpu_time = time.process_time  # whatever the tests put in its place
OPERATIONS = {"next", "anext", "item"}


class Drawn:
    def __init__(self, seconds: float) -> None:
        """`seconds`: of CPU time that the program may take."""
        self._seconds, self._count = seconds / 2, 0
        self._began = 0.0

    def begin(self) -> None:
        self._began = _cpu_time()

    def end(self) -> None:
        """Raises TooSlow."""
        self._count += 1
        self._seconds -= _cpu_time() - self._began
        if self._seconds < 0:
            raise series.TooSlow(f"its answers had no end: the tests drew {self._count} elements within its CPU time")
