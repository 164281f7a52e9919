"""All processes of a job at once: their memory and their CPU time, where a program may start others.

Read through a /proc that was opened before the lane got its own root: no path leads there, and programs get no
descriptor of it.
"""

import os

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")


class ProcessTree:
    """`proc`: a descriptor of /proc. `cpu` and `memory` are as of the last `look`, `peak` is the most memory seen."""

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self._left_out = ""
        self.forget()

    def forget(self) -> None:
        self.cpu, self.memory, self.peak = 0.0, 0, 0

    def look(self, limit: int) -> None:
        """Memory is what's resident, and only above `limit` exactly: shared pages then count once in all."""
        cpu, memory, members = 0, 0, []
        for member in self._members():
            fields = self._read(f"{member}/stat").rpartition(b")")[2].split()
            if fields:
                # its own time, and that of its children which have ended
                cpu += sum(int(ticks) for ticks in fields[11:15])
                memory += int(fields[21]) * _PAGE
                members.append(member)
        if memory > limit:
            memory = sum(self._exact_memory(member) for member in members)
        self.cpu, self.memory, self.peak = cpu / _TICK, memory, max(self.peak, memory)

    def leave_out(self, child: int) -> bool:
        """From what is counted. False if this /proc doesn't show it: with hidepid, or without CONFIG_PROC_CHILDREN."""
        there = self._members()
        self._left_out = str(child)
        return there == [self._left_out] and b" " in self._read(f"{child}/stat")

    def _members(self) -> list[str]:
        """All that descend from this process, by their numbers in this /proc."""
        found: list[str] = []
        waiting = [os.readlink("self", dir_fd=self._proc)]
        while waiting:
            parent = waiting.pop()
            for thread in self._threads(parent):
                children = self._read(f"{parent}/task/{thread}/children").decode().split()
                found += children
                waiting += children
        return [member for member in found if member != self._left_out]

    def _threads(self, process: str) -> list[str]:
        try:
            folder = os.open(f"{process}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._proc)
        except OSError:
            return []  # it has ended
        try:
            return os.listdir(folder)
        except OSError:
            return []
        finally:
            os.close(folder)

    def _exact_memory(self, process: str) -> int:
        for name, wanted in (
            ("smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:")),
            ("status", (b"RssAnon:", b"RssShmem:")),
        ):
            lines = [line.split() for line in self._read(f"{process}/{name}").splitlines()]
            sizes = [int(words[1]) << 10 for words in lines if words and words[0] in wanted]
            if len(sizes) == len(wanted):
                return sum(sizes)
        return 0

    def _read(self, path: str) -> bytes:
        """Nothing for a process that has ended."""
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(descriptor, 1 << 16)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
