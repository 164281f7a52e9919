"""What every program finds new: the folder that it may write to, the numbers of its processes, what it may open.

The zygote makes it before it forks and takes it down after. It reads nothing for that, and keeps nothing of it.
"""

import os
import signal

import root
import scratch
from kernel import landlock, libc

_LAST_PID = "sys/kernel/ns_last_pid"
_BEFORE_FIRST = b"1000"  # the number before that of every program's first process


class LeftBehind(Exception):
    """The lane is not as it was before its last program. It takes no other."""


class World:
    """Without namespaces: the folder is made and removed by the keeper, on a disk that the machine shares."""

    folder: str

    def __init__(self, folder: str, rules: landlock.Rules | None) -> None:
        self.folder, self._rules = folder, rules
        self._allowed = -1

    def settle(self) -> None:
        """Once, in the zygote."""

    def open(self) -> None:
        """Raises OSError."""
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
        if self._allowed >= 0:
            os.close(self._allowed)
            self._allowed = -1


class OwnWorld(World):
    """With namespaces, and the capability to mount in them."""

    def __init__(self, rules: landlock.Rules | None, executable: bool) -> None:
        """`executable`: whether programs may run what they write."""
        super().__init__(root.SCRATCH, rules)
        flags = libc.MS_NOSUID | libc.MS_NODEV | (0 if executable else libc.MS_NOEXEC)
        owner = f"mode=700,uid={os.geteuid()},gid={os.getegid()}"
        self._mount = libc.Mount("tmpfs", self.folder, flags, f"size={scratch.SIZE},nr_inodes={scratch.INODES},{owner}")
        self._last_pid = -1

    def settle(self) -> None:
        """Raises OSError."""
        self._last_pid = os.open(f"{root.MACHINE_PROC}/{_LAST_PID}", os.O_WRONLY | os.O_CLOEXEC)
        # by pid 1 of the namespace, and while the machine's is still to be seen: else the kernel refuses
        flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
        libc.mount("proc", root.PROC, "proc", flags, "subset=pid,hidepid=ptraceable")
        libc.umount(root.MACHINE_PROC, libc.MNT_DETACH)

    def open(self) -> None:
        self._mount.mount()
        os.pwrite(self._last_pid, _BEFORE_FIRST, 0)
        super().open()

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

    def close(self) -> None:
        super().close()
        self._mount.umount()
        try:
            os.kill(-1, 0)
        except ProcessLookupError:
            return
        raise LeftBehind("a process")
