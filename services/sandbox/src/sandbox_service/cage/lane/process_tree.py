"""All processes of a job at once: their memory, their CPU time, and whether one of them wants the processor.

Read through a /proc that was opened before the lane got its own root: no path leads there, and programs get no
descriptor of it.
"""

import os
from collections.abc import Iterable, Iterator

from sandbox_service.cage.lane.child import Child
from sandbox_service.cage.lane.jail import SHARED_BYTES

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
# What the kernel keeps of a program, in bytes and at most: for a thread its stack and its record, for a local socket
# what was sent and not taken (net.core.wmem_max). The first few cost nothing.
_THREAD, _SOCKET, _FREE_THREADS, _FREE_SOCKETS = 32 << 10, 208 << 10, 16, 64


_FREE_SHARED = 16


class ProcessTree:
    """`proc`: a descriptor of /proc. `many`: programs may start processes, which count as well. `cgroup`: one counts
    what is seen only in part.

    `cpu` (without the tester's), `memory` and `busy` are as of the last `look`, `peak` is the most memory seen.
    """

    def __init__(self, proc: int, many: bool, cgroup: bool) -> None:
        self._proc, self._many, self._cgroup = proc, many, cgroup
        self._zygote = ""
        self.forget()

    def forget(self) -> None:
        self.cpu, self.memory, self.peak, self.busy = 0.0, 0, 0, False

    def look(self, children: list[Child], limit: int, files: int) -> None:
        """`children`: the program and, where there's one, its tester; none for what runs by itself. `files`: bytes of
        its files that are in memory.

        Memory is what's resident, and only above `limit` exactly: shared pages then count once in all. What can't be
        seen counts as busy.
        """
        numbers = [str(child.number()) for child in children]
        program, tester = numbers[:1], numbers[1:]
        cpu = memory = threads = 0
        seen, busy, members = False, False, []
        for member in self._members(tester) if self._many else program:
            fields = self._fields(f"{member}/stat")
            if fields:
                # its own time, and that of its children which have ended
                cpu += sum(int(ticks) for ticks in fields[11:15])
                memory += int(fields[21]) * _PAGE
                threads += int(fields[17])
                members.append(member)
                seen, busy = True, busy or self._wants_processor(member, fields)
        busy = busy or any(self._wants_processor(each, self._fields(f"{each}/stat")) for each in tester)
        if memory + files > limit:
            sizes = [self._exact_memory(member) for member in members]
            # files that are mapped are among what is shared
            memory = sum(own for own, _ in sizes) + max(sum(shared for _, shared in sizes) - files, 0)
        memory += files
        memory += _THREAD * max(0, threads - _FREE_THREADS)
        if self._many:
            memory += sum(self._sizes(f"{member}/status", b"VmPTE:")[0] for member in members)
            if not self._cgroup:
                shared = {each for member in members for each in self._shared_mappings(member)}
                memory += SHARED_BYTES[True] * max(0, len(shared) - _FREE_SHARED)
            memory += _SOCKET * max(0, self._sockets() - _FREE_SOCKETS)
        self.cpu, self.memory, self.peak = cpu / _TICK, memory, max(self.peak, memory)
        self.busy = busy or not seen

    def count(self) -> int:
        """Processes that descend from the zygote now."""
        return sum(1 for _ in self._members([])) if self._many else 0

    def find(self, zygote: int) -> bool:
        """What programs are forked from. False if this /proc doesn't show it: with hidepid, or without
        CONFIG_PROC_CHILDREN."""
        self._zygote = str(zygote)
        return self._zygote in self._children_of(os.readlink("self", dir_fd=self._proc))

    def _wants_processor(self, process: str, fields: list[bytes]) -> bool:
        """Whether a thread of it runs or waits for its turn."""
        if not fields or fields[0] == b"R" or fields[17] == b"1":
            return bool(fields) and fields[0] == b"R"
        return any(self._fields(f"{process}/task/{thread}/stat")[:1] == [b"R"] for thread in self._threads(process))

    def _members(self, tester: list[str]) -> Iterator[str]:
        """All that descend from the zygote, and not from the tester, by their numbers in this /proc."""
        waiting = [self._zygote]
        while waiting:
            children = [child for child in self._children_of(waiting.pop()) if child not in tester]
            yield from children
            waiting += children

    def _children_of(self, process: str) -> list[str]:
        found: list[str] = []
        for thread in self._threads(process):
            found += self._read(f"{process}/task/{thread}/children").decode().split()
        return found

    def _threads(self, process: str) -> Iterable[str]:
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

    def _exact_memory(self, process: str) -> tuple[int, int]:
        """Its own and its part of what is shared."""
        own, shared = self._sizes(f"{process}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
        if own or shared:
            return own, shared
        own, shared = self._sizes(f"{process}/status", b"RssAnon:", b"RssShmem:")
        return own, shared

    def _sizes(self, path: str, *names: bytes) -> list[int]:
        """Bytes, of the lines that begin so."""
        found = dict.fromkeys(names, 0)
        for line in self._read(path).splitlines():
            words = line.split()
            if words and words[0] in found:
                found[words[0]] = int(words[1]) << 10
        return list(found.values())

    def _shared_mappings(self, process: str) -> Iterator[bytes]:
        """What tells them apart: of those that are no file's."""
        for line in self._read(f"{process}/maps").splitlines():
            if line.endswith(b"/dev/zero (deleted)"):
                yield line.split()[4]

    def _sockets(self) -> int:
        """How many there are in the lane's network."""
        words = self._read(f"{self._zygote}/net/sockstat").split()
        return int(words[2]) if words[:2] == [b"sockets:", b"used"] else 0

    def _fields(self, path: str) -> list[bytes]:
        """Of a `stat`, from the state on: proc_pid_stat(5), less 3. Nothing for what has ended."""
        return self._read(path).rpartition(b")")[2].split()

    def _read(self, path: str) -> bytes:
        """Nothing for a process that has ended."""
        data = b""
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return data
        try:
            while chunk := os.read(descriptor, 1 << 16):
                data += chunk
        except OSError:
            pass
        finally:
            os.close(descriptor)
        return data
