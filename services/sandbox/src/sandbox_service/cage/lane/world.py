"""All that is new for every program: the folder that it may write to, the numbers of its processes, what it may open.

The keeper makes it and takes it down. The zygote does what only a process of the lane's own pid namespace can: it sets
the number that processes begin from, and ends what still runs. Both then prove that the lane is as it was (proof.py),
though nothing is known by which a program could change that.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Iterator

from sandbox_service.cage.kernel import landlock, libc
from sandbox_service.cage.lane import root, scratch
from sandbox_service.cage.lane.proof import LeftBehind, Outside, Within

_LAST_PID = "sys/kernel/ns_last_pid"
_BEFORE_FIRST = b"9"  # the number before that of every program's first process


class World:
    """Without namespaces: the folder is made and removed by the keeper, on a disk that the machine shares."""

    def __init__(self, folder: str, rules: landlock.Rules | None) -> None:
        self.folder, self._rules = folder, rules
        self._restrict = rules.restrict if rules else None
        self._drop = self._mount = self._umount = libc.NOTHING
        self._within: Within
        self._outside: Outside | None = None

    def settle(self) -> None:
        """Once, in the zygote. Raises OSError."""

    def rest(self) -> None:
        """Once, in the zygote: what it is like now it is after every program."""
        self._within = Within()

    def rehearse(self) -> None:
        """What `enter` does, without effect."""
        folder, drop, restrict = self.folder, self._drop, self._restrict
        self.folder, self._drop = "/", libc.NOTHING
        self._restrict = self._rules.rehearse if self._rules else None
        self.enter(0)
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

    def open(self, zygote: int) -> list[int]:
        """In the keeper. Returns what `enter` takes: descriptors, until `close`. Raises OSError."""
        if not self._outside:
            self._outside = self._look_from_outside(zygote)
        self._mount()
        return [self._rules.make()] if self._rules else []

    def resize(self, size: int, inodes: int) -> None:
        """In the keeper, before `open`: how much the folder holds. Without namespaces nothing but a look tells."""

    def rules_anew(self, is_command: bool = True) -> list[int]:
        """In the keeper: as `open` returns them, for one more program in the same folder, or for what moves files."""
        if not self._rules:
            return []
        self._rules.drop()
        return [self._rules.make()]

    def number_anew(self) -> None:
        """In the zygote, before the first fork of a program."""

    def enter(self, places: int) -> int:
        """In a fresh fork, which from now on can open what a program may, and has no capability left.

        It has `places` descriptors, and the last are those of `open`. Returns how many come before these.
        """
        os.chdir(self.folder)
        self._drop()
        if self._restrict:
            places -= 1
            self._restrict(places)
        return places

    def clear(self) -> float:
        """In the zygote, when the program has ended: kills what still runs. Returns the CPU seconds of that.

        Raises LeftBehind.
        """
        cpu = self.end_strays()
        self._within.demand_unchanged()
        return cpu

    def close(self) -> None:
        """In the keeper, after that. Raises LeftBehind."""
        if self._rules:
            self._rules.drop()
        self._umount()
        assert self._outside
        self._outside.demand_unchanged()

    def _look_from_outside(self, zygote: int) -> Outside:
        return Outside(zygote, -1)

    def end_strays(self) -> float:
        """In the zygote: kills what still runs. Returns the CPU seconds of that. Raises LeftBehind."""
        return 0.0


class OwnWorld(World):
    """With namespaces, and the capability to mount in them."""

    def __init__(self, rules: landlock.Rules | None, processes: bool, proc: int) -> None:
        """`processes`: programs may start some, and run what they write. `proc`: a descriptor of the machine's."""
        super().__init__(root.SCRATCH, rules)
        self._flags = libc.MS_NOSUID | libc.MS_NODEV | (0 if processes else libc.MS_NOEXEC)
        self.resize(scratch.SIZE, scratch.INODES)
        self._processes, self._proc = processes, proc
        self._drop = libc.prepared_drop()
        self._last_pid = -1
        self._signal_all = libc.prepared_kill(-1, signal.SIGKILL if processes else 0)

    def resize(self, size: int, inodes: int) -> None:
        owner = f"mode=700,uid={os.geteuid()},gid={os.getegid()}"
        options = f"size={size},nr_inodes={inodes},{owner}"
        self._mount, self._umount = libc.prepared_mount("tmpfs", self.folder, self._flags, options)

    @contextlib.contextmanager
    def before_programs(self) -> Iterator[None]:
        self._mount()
        try:
            yield
        finally:
            self._umount()

    def settle(self) -> None:
        self._last_pid = libc.high(os.open(f"{root.MACHINE_PROC}/{_LAST_PID}", os.O_WRONLY | os.O_CLOEXEC))
        # by pid 1 of the namespace, and while the machine's is still to be seen: else the kernel refuses
        flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
        libc.mount("proc", root.PROC, "proc", flags, "subset=pid,hidepid=ptraceable")
        libc.umount(root.MACHINE_PROC, libc.MNT_DETACH)

    def number_anew(self) -> None:
        os.pwrite(self._last_pid, _BEFORE_FIRST, 0)

    def _look_from_outside(self, zygote: int) -> Outside:
        return Outside(zygote, self._proc)

    def end_strays(self) -> float:
        if self._signal_all.attempt() == -errno.ESRCH:  # as it is with most: there's nobody
            return 0.0
        if not self._processes:
            raise LeftBehind("a process")
        cpu = 0.0
        with contextlib.suppress(ChildProcessError):
            while True:
                usage = os.wait4(-1, 0)[2]
                cpu += usage.ru_utime + usage.ru_stime
        if self._signal_all.attempt() != -errno.ESRCH:
            raise LeftBehind("a process")
        return cpu
