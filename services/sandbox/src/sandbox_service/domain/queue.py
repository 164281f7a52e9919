"""Whose turn it is: the more urgent first, callers in turn, and none waits for ever. Plain data, no I/O."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from ratchet_kit.work import Priority

FAIR_SHARE = 8
"""One turn in so many goes to the entry that has waited longest below the most urgent priority that waits."""


T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Entry(Generic[T]):
    """One thing that waits, or has had its turn. Mutable: its number comes when it is put into the queue."""

    content: T
    caller: str
    priority: Priority
    number: int = 0


class FairQueue(Generic[T]):
    """Within a priority each caller with something here has every n-th turn, of n callers, whatever it has queued."""

    def __init__(self) -> None:
        self._lines: dict[Priority, OrderedDict[str, deque[Entry[T]]]] = {
            priority: OrderedDict() for priority in Priority
        }
        self._lengths = dict.fromkeys(Priority, 0)
        self._added = self._turns = 0

    def __len__(self) -> int:
        return sum(self._lengths.values())

    def length(self, priority: Priority) -> int:
        return self._lengths[priority]

    def put(self, entry: Entry[T]) -> None:
        self._added += 1
        entry.number = self._added
        self._lines[entry.priority].setdefault(entry.caller, deque()).append(entry)
        self._lengths[entry.priority] += 1

    def take(self) -> Entry[T]:
        """Raises IndexError when nothing waits."""
        waiting = [priority for priority in Priority if self._lines[priority]]
        self._turns += 1
        if len(waiting) > 1 and self._turns % FAIR_SHARE == 0:
            return self._next(min(waiting[1:], key=self._oldest))
        return self._next(waiting[0])

    def remove(self, entry: Entry[T]) -> None:
        """Raises ValueError when it doesn't wait here."""
        line = self._lines[entry.priority]
        if entry.caller not in line:
            raise ValueError("waits no more")
        line[entry.caller].remove(entry)
        if not line[entry.caller]:
            del line[entry.caller]
        self._lengths[entry.priority] -= 1

    def _next(self, priority: Priority) -> Entry[T]:
        line = self._lines[priority]
        caller, entries = next(iter(line.items()))
        entry = entries.popleft()
        if entries:
            line.move_to_end(caller)
        else:
            del line[caller]
        self._lengths[priority] -= 1
        return entry

    def _oldest(self, priority: Priority) -> int:
        return min(entries[0].number for entries in self._lines[priority].values())
