"""The root of a lane that has namespaces: read-only, the library and little else, and a folder for each program.

What is in it has inodes of its own where the kernel stacks file systems (overlayfs): a lock or a mark on a file of the
library is then seen in this lane alone. Devices are the lane's own where root makes them.
"""

import os
import stat
from collections.abc import Callable

from sandbox_service.cage.kernel import libc

FOLDER = os.path.dirname(os.path.dirname(__file__))  # of the cage's modules, wherever this process has them from
SCRATCH, PACKAGES, CAGE = "/tmp", "/packages", "/cage"
NAMES = "/names"  # last on the PATH: `python`, for programs that start it by its name
MACHINE_PROC = "/mnt"  # the machine's /proc, until the lane has its own: see world.py
# Landlock lets programs open nothing in it but what they hold already (/dev/fd) and, with packages, their own cmdline.
PROC = "/proc"
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
DEVICES = tuple(f"/dev/{name}" for name in _DEVICES)
_LINKS = {
    "/dev/stdin": f"{PROC}/self/fd/0",
    "/dev/stdout": f"{PROC}/self/fd/1",
    "/dev/stderr": f"{PROC}/self/fd/2",
    "/dev/fd": f"{PROC}/self/fd",
    "/dev/shm": SCRATCH,
}


class Root:
    """`stage`: an existing empty folder to build upon; only the lane's mount namespace ever sees what is built.

    `paths`: what to show beside the interpreter `python` and what that reads; `packages`: a folder to show as PACKAGES.
    A copy of FOLDER is shown as CAGE where Python begins again in it. `folders`: names that lead to those of SCRATCH,
    unless something is shown there. `more`: builds what else is to be there, on the stage.
    """

    def __init__(
        self,
        stage: str,
        paths: tuple[str, ...],
        python: str,
        packages: str,
        begins_again: bool = True,
        folders: tuple[str, ...] = (),
        more: Callable[[str], None] | None = None,
    ) -> None:
        self._begins_again, self._folders, self._more = begins_again, folders, more
        self._stage, self._paths, self._packages = stage, (*paths, python), packages
        self._links = _LINKS | {f"{NAMES}/{name}": python for name in ("python", "python3")}

    def build(self) -> bool:
        """In a mount namespace of its own, by whoever may mount there: root before it has given itself up can show what
        others can't read, and make devices.

        True if all files in it have inodes of its own. Raises OSError.
        """
        stage = self._stage
        libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
        libc.mount("tmpfs", stage, "tmpfs", libc.MS_NOSUID, "size=8m,nr_inodes=4096,mode=755")
        for folder in (SCRATCH, MACHINE_PROC, CAGE, NAMES, "/dev", PROC):
            os.mkdir(stage + folder, 0o755)
        own = [self._show(path, path) for path in readable_paths(self._paths)]
        if self._packages:
            own.append(self._show(self._packages, PACKAGES))
        own += [self._make_device(name) for name in _DEVICES]
        for path, target in self._links.items():
            os.symlink(target, stage + path)
        for name in self._folders:
            if not os.path.lexists(f"{stage}/{name}"):
                os.symlink(f"{SCRATCH}/{name}", f"{stage}/{name}")
        if self._begins_again:
            self._copy_cage()
        if self._more:
            self._more(stage)
        libc.mount("none", stage, None, libc.MS_REMOUNT | libc.MS_RDONLY | libc.MS_NOSUID)
        os.chdir(stage)  # the user that this process becomes may not be able to
        return all(own)

    def enter(self) -> None:
        """What was built, and is the current folder, becomes this process's root. Raises OSError."""
        # once more in another place: what came from another user namespace can't be pivoted to
        libc.mount(".", f".{MACHINE_PROC}", None, libc.MS_BIND | libc.MS_REC)
        os.chdir(f".{MACHINE_PROC}")
        libc.mount("/proc", f".{MACHINE_PROC}", None, libc.MS_BIND | libc.MS_REC)
        # pivot_root(".", "."): the old root ends up stacked on the new one, pivot_root(2)
        libc.syscall(libc.PIVOT_ROOT, b".", b".")
        libc.umount(".", libc.MNT_DETACH)
        os.chdir("/")

    def _show(self, source: str, path: str) -> bool:
        """False if it's the machine's own inodes that are shown."""
        target = self._stage + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
            return True
        try:
            self._stack(source, target)
        except OSError:
            bind(source, target)
            return False
        return True

    def _stack(self, source: str, target: str) -> None:
        """A view of a folder, or of a file by way of its folder. Raises OSError where file systems can't be stacked."""
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
            layers = ":".join(_escape(folder) for folder in (source, self._stage + SCRATCH))
            libc.mount("overlay", target, "overlay", libc.MS_RDONLY | libc.MS_NOSUID, f"lowerdir={layers}")
            return
        view = self._stage + MACHINE_PROC
        self._stack(os.path.dirname(source), view)
        try:
            bind(f"{view}/{os.path.basename(source)}", target)
        finally:
            libc.umount(view, libc.MNT_DETACH)

    def _make_device(self, name: str) -> bool:
        target = f"{self._stage}/dev/{name}"
        try:
            os.mknod(target, stat.S_IFCHR | 0o666, os.makedev(*_DEVICES[name]))
        except PermissionError:
            bind(f"/dev/{name}", target)
            return False
        os.chmod(target, 0o666)
        return True

    def _copy_cage(self) -> None:
        """Whatever rights its files have: the lane may be somebody else by the time it reads them."""
        for folder, _, files in os.walk(FOLDER):
            target = self._stage + CAGE + folder.removeprefix(FOLDER)
            os.makedirs(target, exist_ok=True)
            for file in files:
                status = os.stat(f"{folder}/{file}")
                with open(f"{folder}/{file}", "rb") as source:
                    _write(f"{target}/{file}", source.read())
                # what is compiled knows its source by its time
                os.utime(f"{target}/{file}", ns=(status.st_atime_ns, status.st_mtime_ns))


def readable_paths(more: tuple[str, ...] = ()) -> list[str]:
    """What an interpreter needs to read after it has started: its library, shared libraries, time zones."""
    wanted = [
        os.path.dirname(os.path.dirname(os.path.realpath(os.__file__))),
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
    ]
    wanted += ["/usr/share/zoneinfo", "/etc/ld.so.cache", *more]
    found = [path for path in dict.fromkeys(wanted) if os.path.exists(path)]
    # what lies in another one is there already; a link is made, not mounted, and holds nothing
    folders = [f"{path}/" for path in found if not os.path.islink(path)]
    return [path for path in found if not any(path.startswith(folder) for folder in folders)]


def _escape(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\:," else letter for letter in path)


def bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        _write(target, b"")
    libc.mount(source, target, None, libc.MS_BIND | libc.MS_REC)
    # a remount may not drop flags that the outer namespace locked, so it repeats them: mount_namespaces(7)
    locked = os.statvfs(target).f_flag & (libc.MS_NODEV | libc.MS_NOEXEC)
    libc.mount("none", target, None, libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID | locked)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
