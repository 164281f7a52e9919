"""Whether an engine lives: it says so every second, and who says nothing hangs, unless it computes.

A forward pass of a long prompt takes minutes on a CPU, and no call is answered meanwhile: silence alone proves nothing.
A process that is stopped, or waits for ever, uses no processor time.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

LOOK = timedelta(seconds=1)
"""Between two looks. What is late because this service stood still itself is one look late."""
_COMPUTES = 0.02
"""Seconds of processor time in a look."""
_COMPUTES_AT_MOST = timedelta(minutes=10)
"""As long as a call without a deadline takes: after it, nobody waits for the answer."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Of a process group, in seconds."""

    leader: float = 0.0
    others: float = 0.0


class Pulse:
    """Of one engine: a process that speaks for it, and others in which it computes."""

    def __init__(self, limit: timedelta, used: Callable[[], ProcessorTime]) -> None:
        """`limit`: of an engine that neither answers nor computes. `used`: by it until now."""
        self._limit = limit
        self._used = used
        self._before: ProcessorTime | None = None
        self._silent = self._idle = 0
        self._speaks = self._answers = True

    def beat(self, answers: bool) -> None:
        """Its process has spoken. `answers`: the others answered it."""
        self._speaks = True
        self._answers = self._answers or answers

    def look(self) -> str:
        """Once each `LOOK`. Why it must be ended, or nothing."""
        if self._answers:
            self._before = None
            self._silent = self._idle = 0
        else:
            self._silent += 1
            self._idle = 0 if self._has_computed() else self._idle + 1
        self._speaks = self._answers = False
        if self._idle >= math.ceil(self._limit / LOOK):
            return f"it has neither answered nor computed for {self._idle * LOOK.seconds} s"
        if self._silent >= _COMPUTES_AT_MOST / LOOK:
            return f"it computes, and has answered nothing for {self._silent * LOOK.seconds} s"
        return ""

    def _has_computed(self) -> bool:
        """Since the look before: whoever is silent."""
        before, now = self._before, self._used()
        self._before = now
        if before is None:
            return False
        used = now.others - before.others if self._speaks else now.leader - before.leader
        return used >= _COMPUTES


def used_by(group: int) -> ProcessorTime:
    """By all processes of a group until now. What has ended is left out."""
    leader = others = 0.0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        if int(fields[2]) != group:
            continue
        seconds = (int(fields[11]) + int(fields[12])) / _TICKS
        if int(file.parent.name) == group:
            leader += seconds
        else:
            others += seconds
    return ProcessorTime(leader, others)
