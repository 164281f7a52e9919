"""For how long what the program answered holds: see answers.py."""

import resource
import time

_LONG = 0.25  # seconds: more than a busy machine puts between two questions of one line
_OF_THREAD = resource.RUSAGE_THREAD


class Moment:
    """Over when the tests have waited since the program answered last, or have asked for long: clocks go on. Only
    voluntary waits count: not those of a busy machine, and not the time that an answer takes.
    """

    def __init__(self) -> None:
        self.answered()

    def answered(self) -> None:
        self._waits, self._at = resource.getrusage(_OF_THREAD).ru_nvcsw, time.monotonic()

    def is_over(self) -> bool:
        if resource.getrusage(_OF_THREAD).ru_nvcsw == self._waits and time.monotonic() < self._at + _LONG:
            return False
        self.answered()
        return True
