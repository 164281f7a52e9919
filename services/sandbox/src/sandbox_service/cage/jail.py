"""Locks the calling process in, once, before it has seen any program. Irreversible.

Two ways lead to the same place. Root unshares its namespaces, builds the private root and gives itself up for an
unprivileged uid. Any other user does it through a user namespace, if the kernel lets it. Where neither works, what is
left is the seccomp filter and Landlock, and the report says so.
"""

import os
import resource
import sys

from kernel import landlock, libc

_NAMESPACES = libc.CLONE_NEWNS | libc.CLONE_NEWPID | libc.CLONE_NEWNET | libc.CLONE_NEWIPC | libc.CLONE_NEWUTS
_INSIDE_ID = 1000
_TASKS = 256
_RESERVE = 1 << 30
_DEVICES = ("null", "zero", "full", "random", "urandom")
SCRATCH, SHARED_MEMORY, PACKAGES = "/tmp", "/dev/shm", "/packages"


def refusal_to_unshare(stage: str, more: tuple[str, ...] = (), packages: str = "") -> str:
    """Tries in a child what can't be taken back. The kernel's complaint, or nothing: then `unshare` and more will work.

    Kernels and containers refuse in many places: the namespaces, the maps, the mounts, pivot_root.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            unshare()
            change_root(stage, 1 << 20, 0 if os.geteuid() == 0 else _INSIDE_ID, more, packages)
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as complaint:
        text = complaint.read()
    os.waitpid(child, 0)
    return text


def unshare() -> list[str]:
    """Enters fresh namespaces; the next fork is pid 1 of its own. Returns the layers won, raises OSError."""
    root = os.geteuid() == 0
    uid, gid = os.geteuid(), os.getegid()
    libc.unshare(_NAMESPACES | (0 if root else libc.CLONE_NEWUSER))
    if not root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{_INSIDE_ID} {uid} 1")
        _write("/proc/self/gid_map", f"{_INSIDE_ID} {gid} 1")
    libc.set_host_name("sandbox")
    names = ["mount-ns", "pid-ns", "net-ns", "ipc-ns", "uts-ns"]
    return names if root else ["user-ns", *names]


def change_root(
    stage: str,
    scratch_bytes: int,
    owner: int,
    more: tuple[str, ...] = (),
    packages: str = "",
    processes: bool = False,
) -> None:
    """A read-only root with the standard library, shared libraries, five devices and one small writable SCRATCH.

    `stage` is an existing empty folder to build it on: only this mount namespace ever sees it. `owner` is the uid
    that SCRATCH belongs to. No /proc, no /sys, no /etc, no home. `more`: other paths to read. `packages`: a
    folder to show as PACKAGES, wherever it lies. `processes`: SCRATCH may hold programs to run, and is the shared
    memory as well.
    """
    libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("tmpfs", stage, "tmpfs", libc.MS_NOSUID, "size=1m,nr_inodes=4096,mode=755")
    for path in readable_paths(more):
        _bind(path, stage + path)
    if packages:
        _bind(packages, stage + PACKAGES)
    for name in _DEVICES:
        target = f"{stage}/dev/{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        libc.mount(f"/dev/{name}", target, None, libc.MS_BIND)
    os.mkdir(stage + SCRATCH, 0o700)
    flags = libc.MS_NOSUID | libc.MS_NODEV | (0 if processes else libc.MS_NOEXEC)
    libc.mount(
        "tmpfs",
        stage + SCRATCH,
        "tmpfs",
        flags,
        f"size={scratch_bytes},nr_inodes=4096,mode=700,uid={owner},gid={owner}",
    )
    if processes:
        os.mkdir(stage + SHARED_MEMORY)
        libc.mount(stage + SCRATCH, stage + SHARED_MEMORY, None, libc.MS_BIND)
    os.chdir(stage)
    # pivot_root(".", "."): the old root ends up stacked on the new one, pivot_root(2)
    libc.syscall(libc.PIVOT_ROOT, b".", b".")
    libc.umount(".", libc.MNT_DETACH)
    os.chdir("/")
    libc.mount("none", "/", None, libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID)


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


def _bind(source: str, target: str) -> None:
    if os.path.islink(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    libc.mount(source, target, None, libc.MS_BIND | libc.MS_REC)
    # a remount may not drop flags that the outer namespace locked, so it repeats them: mount_namespaces(7)
    locked = os.statvfs(target).f_flag & (libc.MS_NODEV | libc.MS_NOEXEC)
    libc.mount("none", target, None, libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID | locked)


def become(uid: int) -> None:
    """Root gives itself up for `uid`. The kernel clears every capability on the way: capabilities(7)."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def seal() -> None:
    """The last step: no capability, no new privilege, no look from outside, dead with the parent."""
    libc.drop_capabilities()
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
    # a change of uid clears the death signal, so it's set here and not before
    libc.prctl(libc.PR_SET_PDEATHSIG, 9)
    libc.prctl(libc.PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def confine_files(scratch: str, more: tuple[str, ...] = (), proc: int = -1, processes: bool = False) -> bool:
    """Landlock: read the library, write `scratch`, nothing else. False if the kernel lacks it.

    `more`: other paths to read. `proc`: a descriptor of /proc, which no path leads to, or -1.
    """
    read: list[str | int] = [*readable_paths(more), *(f"/dev/{name}" for name in _DEVICES)]
    write = [scratch]
    if proc >= 0:
        read.append(proc)
    if processes:
        write.append(SHARED_MEMORY)
    return landlock.restrict(read, write)


def limit_lane(file_bytes: int, processes: bool) -> None:
    """Hard limits that are the same for all programs: the keeper takes them on itself."""
    for kind, value in (
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, 256 if processes else 128),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def limit_program(memory_bytes: int, cpu_seconds: float, processes: bool) -> None:
    """Hard limits of one program; with `processes`, of each of its processes.

    They are backstops: the keeper measures time and memory (budget.py). DATA leaves room for stacks that a program
    asks for and never touches (threading.stack_size(512 MiB)), AS also for what threads and libraries reserve. With
    `processes` both are without end, as run-time systems reserve that way. The stack may grow to nearly all of the
    memory: its end is met before the memory's, so that endless recursion always ends as such.
    """
    unlimited = resource.RLIM_INFINITY
    data, space, seconds = memory_bytes + _RESERVE, memory_bytes + 2 * _RESERVE, int(cpu_seconds) + 2
    if processes:
        data = space = unlimited
        # Counts all that the uid has in its user namespace. Not for single processes: their threads are bounded by AS,
        # and without namespaces the uid may be that of a whole platform.
        resource.setrlimit(resource.RLIMIT_NPROC, (_TASKS, _TASKS))
    stack, most = memory_bytes - memory_bytes // 16, resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (stack if most == unlimited else min(stack, most), most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def parent_is(pid: int) -> bool:
    """False if the parent died before PDEATHSIG was set, and nothing would ever stop this process."""
    return os.getppid() == pid or sys.platform != "linux"
