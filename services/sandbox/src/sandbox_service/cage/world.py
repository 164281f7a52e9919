"""What every program finds new: the folder that it may write to, the numbers of its processes, what it may open.

The zygote makes it before it forks and takes it down after. It reads nothing for that, and keeps nothing of it. Then
it proves that the lane is as it was: after each program that none of its processes is left, and now and then all that
programs have in common, though nothing is known by which they could change that.
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
_WHOLE_PROOF_EVERY = 64  # programs
_DESCRIPTORS = 128  # numbers below which the zygote has them all
_LIMITS = 16  # kinds, by the kernel's numbers


class LeftBehind(Exception):
    """The lane is not as it was before its last program. It takes no other."""


class World:
    """Without namespaces: the folder is made and removed by the keeper, on a disk that the machine shares."""

    folder: str

    def __init__(self, folder: str, rules: landlock.Rules | None) -> None:
        self.folder, self._rules = folder, rules
        self._allowed = -1
        self._opened, self._at_rest = 0, frozenset[tuple[object, ...]]()

    def settle(self) -> None:
        """Once, in the zygote."""

    @contextlib.contextmanager
    def before_programs(self) -> Iterator[None]:
        """While packages are loaded, some of which want a folder to write to. Nothing of it is left."""
        yield

    def open(self) -> None:
        """Raises OSError."""
        if not self._opened:
            self._at_rest = frozenset(self._state())
        self._opened += 1
        self._make()

    def _make(self) -> None:
        if self._rules:
            self._allowed = self._rules.make(self.folder)

    def enter(self) -> None:
        """In a fresh fork, which from now on can open what a program may, and has no capability left."""
        os.chdir(self.folder)
        if self._rules:
            landlock.restrict(self._allowed)

    def end_strays(self) -> float:
        """Kills what the program left running. Returns its CPU seconds."""
        return 0.0

    def close(self) -> None:
        """Raises LeftBehind."""
        self._take_down()
        if self._opened % _WHOLE_PROOF_EVERY == 0:
            for what in self._at_rest.symmetric_difference(self._state()):
                raise LeftBehind(" ".join(str(part) for part in what))

    def _take_down(self) -> None:
        if self._allowed >= 0:
            os.close(self._allowed)
            self._allowed = -1

    def _state(self) -> Iterator[tuple[object, ...]]:
        """All that programs share, while there's no program."""
        for number in range(_DESCRIPTORS):
            try:
                status = os.fstat(number)
            except OSError:
                continue
            flags = [fcntl.fcntl(number, request) for request in (fcntl.F_GETFL, fcntl.F_GETFD)]
            yield "descriptor", number, status.st_dev, status.st_ino, status.st_mode, *flags
        for limit in range(_LIMITS):
            yield "limit", limit, *resource.getrlimit(limit)
        yield "priority", os.getpriority(os.PRIO_PROCESS, 0)
        yield "signals", *signal.pthread_sigmask(signal.SIG_BLOCK, ()), *signal.getitimer(signal.ITIMER_REAL)
        yield "folder", os.getcwd()


class OwnWorld(World):
    """With namespaces, and the capability to mount in them."""

    def __init__(self, rules: landlock.Rules | None, executable: bool) -> None:
        """`executable`: whether programs may run what they write."""
        super().__init__(root.SCRATCH, rules)
        flags = libc.MS_NOSUID | libc.MS_NODEV | (0 if executable else libc.MS_NOEXEC)
        owner = f"mode=700,uid={os.geteuid()},gid={os.getegid()}"
        self._mount = libc.Mount("tmpfs", self.folder, flags, f"size={scratch.SIZE},nr_inodes={scratch.INODES},{owner}")
        self._last_pid = -1

    @contextlib.contextmanager
    def before_programs(self) -> Iterator[None]:
        self._mount.mount()
        try:
            yield
        finally:
            self._mount.umount()

    def settle(self) -> None:
        """Raises OSError."""
        self._last_pid = os.open(f"{root.MACHINE_PROC}/{_LAST_PID}", os.O_WRONLY | os.O_CLOEXEC)
        # by pid 1 of the namespace, and while the machine's is still to be seen: else the kernel refuses
        flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
        libc.mount("proc", root.PROC, "proc", flags, "subset=pid,hidepid=ptraceable")
        libc.umount(root.MACHINE_PROC, libc.MNT_DETACH)

    def _make(self) -> None:
        self._mount.mount()
        os.pwrite(self._last_pid, _BEFORE_FIRST, 0)
        super()._make()

    def enter(self) -> None:
        libc.set_capabilities(0)
        super().enter()

    def end_strays(self) -> float:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return 0.0
        cpu = 0.0
        while True:
            try:
                usage = os.wait4(-1, 0)[2]
            except ChildProcessError:
                return cpu
            cpu += usage.ru_utime + usage.ru_stime

    def _take_down(self) -> None:
        super()._take_down()
        self._mount.umount()
        try:
            os.kill(-1, 0)
        except ProcessLookupError:
            return
        raise LeftBehind("a process")

    def _state(self) -> Iterator[tuple[object, ...]]:
        yield from super()._state()
        descriptor = os.open(f"{root.PROC}/self/mountinfo", os.O_RDONLY)
        for line in os.read(descriptor, 1 << 16).splitlines():
            yield "mount", line
        os.close(descriptor)
        for folder in ("/", "/dev", self.folder):
            for name in (".", *os.listdir(folder)):
                path = f"{folder}/{name}"
                now = os.lstat(path)
                yield "file", path, now.st_mode, now.st_uid, now.st_rdev, now.st_mtime_ns, now.st_ctime_ns
                yield "attributes", path, *os.listxattr(path, follow_symlinks=False)
