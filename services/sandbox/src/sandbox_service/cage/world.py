"""What every program finds new: the folder that it may write to, the numbers of its processes, what it may open.

The zygote makes it before it forks and takes it down after. It reads nothing for that, and keeps nothing of it. Then
it proves that the lane is as it was: no process is left, and all that programs have in common is the same, though
nothing is known by which they could change that.
"""

import contextlib
import fcntl
import os
import resource
import signal
from collections.abc import Iterator

import root
import scratch
from kernel import landlock, libc

_LAST_PID = "sys/kernel/ns_last_pid"
_BEFORE_FIRST = b"9"  # the number before that of every program's first process
_LIMITS = range(16)  # kinds, by the kernel's numbers


class LeftBehind(Exception):
    """The lane is not as it was before its last program. It takes no other."""


class World:
    """Without namespaces: the folder is made and removed by the keeper, on a disk that the machine shares."""

    def __init__(self, folder: str, rules: landlock.Rules | None) -> None:
        self.folder, self._rules = folder, rules
        self._drop = libc.NOTHING
        self._restrict = rules.restrict if rules else libc.NOTHING
        self._at_rest: list[object] = []

    def settle(self) -> None:
        """Once, in the zygote."""

    def rehearse(self) -> None:
        """What `enter` does, without effect."""
        folder, drop, restrict = self.folder, self._drop, self._restrict
        self.folder, self._drop, self._restrict = "/", libc.NOTHING, libc.NOTHING
        self.enter()
        self.folder, self._drop, self._restrict = folder, drop, restrict

    @contextlib.contextmanager
    def before_programs(self) -> Iterator[None]:
        """While packages are loaded, some of which want a folder to write to. Nothing of it is left."""
        os.mkdir(self.folder, 0o700)
        try:
            yield
        finally:
            scratch.empty(self.folder)
            os.rmdir(self.folder)

    def open(self) -> None:
        """Raises OSError."""
        if not self._at_rest:
            self._at_rest = self._state()
        self._make()
        if self._rules:
            self._rules.make()

    def enter(self) -> None:
        """In a fresh fork, which from now on can open what a program may, and has no capability left."""
        os.chdir(self.folder)
        self._drop()
        self._restrict()

    def close(self) -> float:
        """Kills what still runs, and proves that nothing is left. Returns the CPU seconds of what was killed.

        Raises LeftBehind.
        """
        cpu = self._end_strays()
        if self._rules:
            self._rules.drop()
        self._take_down()
        if (now := self._state()) != self._at_rest:
            raise LeftBehind(str([what for what in now if what not in self._at_rest]))
        return cpu

    def _make(self) -> None: ...

    def _end_strays(self) -> float:
        return 0.0

    def _take_down(self) -> None: ...

    def _state(self) -> list[object]:
        """All that programs share, while there's no program."""
        found: list[object] = [os.getcwd(), os.getpriority(os.PRIO_PROCESS, 0), signal.getitimer(signal.ITIMER_REAL)]
        found.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        found += [resource.getrlimit(limit) for limit in _LIMITS]
        return found


class OwnWorld(World):
    """With namespaces, and the capability to mount in them."""

    def __init__(self, rules: landlock.Rules | None, processes: bool) -> None:
        """`processes`: programs may start some, and run what they write."""
        super().__init__(root.SCRATCH, rules)
        flags = libc.MS_NOSUID | libc.MS_NODEV | (0 if processes else libc.MS_NOEXEC)
        owner = f"mode=700,uid={os.geteuid()},gid={os.getegid()}"
        options = f"size={scratch.SIZE},nr_inodes={scratch.INODES},{owner}"
        self._mount, self._umount = libc.prepared_mount("tmpfs", self.folder, flags, options)
        self._processes = processes
        self._drop = libc.prepared_drop()
        self._last_pid = -1

    @contextlib.contextmanager
    def before_programs(self) -> Iterator[None]:
        self._mount()
        try:
            yield
        finally:
            self._umount()

    def settle(self) -> None:
        """Raises OSError."""
        self._last_pid = os.open(f"{root.MACHINE_PROC}/{_LAST_PID}", os.O_WRONLY | os.O_CLOEXEC)
        # by pid 1 of the namespace, and while the machine's is still to be seen: else the kernel refuses
        flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
        libc.mount("proc", root.PROC, "proc", flags, "subset=pid,hidepid=ptraceable")
        libc.umount(root.MACHINE_PROC, libc.MNT_DETACH)

    def _make(self) -> None:
        self._mount()
        os.pwrite(self._last_pid, _BEFORE_FIRST, 0)

    def _end_strays(self) -> float:
        cpu = 0.0
        try:
            if self._processes:
                os.kill(-1, signal.SIGKILL)
            while True:
                usage = os.wait4(-1, 0)[2]
                cpu += usage.ru_utime + usage.ru_stime
        except (ProcessLookupError, ChildProcessError):
            return cpu

    def _take_down(self) -> None:
        self._umount()
        try:
            os.kill(-1, 0)
        except ProcessLookupError:
            return
        raise LeftBehind("a process")

    def _state(self) -> list[object]:
        found = super()._state()
        mounts = os.open(f"{root.PROC}/self/mountinfo", os.O_RDONLY)
        found += os.read(mounts, 1 << 16).splitlines()
        os.close(mounts)
        # the flags of what is open, as it may be shared with a program; files of the root can't change: it's read-only
        for number in map(int, os.listdir(f"{root.PROC}/self/fd")):
            try:
                found.append((number, fcntl.fcntl(number, fcntl.F_GETFL)))
            except OSError:
                continue  # that of the listing itself
        return found
