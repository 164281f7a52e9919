"""One cgroup a lane, version 1 or 2: what all its processes together may take of memory, process ids and processors.

Resource limits of a process (cage/lane/jail.py) come first and are what an ordinary program meets. This one counts what
they don't: files in the lane's tmpfs, page tables, several processes. Where the kernel kills for it, that's seen.
With the controller `cpu` every lane has the same share of a core, however many processes it runs there. The CPU time
that a cgroup has used is the only account that no process gets out of: cage/lane/cpu_time.py reads it.
"""

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

PREFIX = "ratchet-sandbox-"
PIDS = 256
_USEFUL = ("cpu", "cpuacct")  # in version 1
_SLACK = 64 << 20  # bytes: page tables, pipes, and a page cache that isn't reclaimed at every step
_REMOVE_LIMIT = 3.0  # seconds
_numbers = itertools.count()


class NoCgroup(Exception):
    """Why this process can't make cgroups, in words."""


@dataclass(frozen=True, slots=True)
class Kills:
    """How often the kernel has killed in a cgroup for memory, and how often it was at its own limit: the kernel kills
    for the memory of the machine, or of a cgroup above, too."""

    count: int = 0
    at_limit: int = 0


@dataclass(frozen=True, slots=True)
class Home:
    """The folders below which this process makes its cgroups. In version 2 all are the same.

    `more`: those of the controllers cpu and cpuacct of version 1, as far as they are here.
    """

    memory: Path
    pids: Path
    unified: bool
    more: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.memory, self.pids, *self.more)))

    def make(self) -> "LaneCgroup":
        """An empty cgroup. Raises NoCgroup."""
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        more = tuple(folder / name for folder in self.more)
        group = LaneCgroup(self.memory / name, self.pids / name, self.unified, more)
        try:
            group.create()
        except OSError as error:
            group.remove()
            raise NoCgroup(f"{error.filename}: {error.strerror}") from None
        return group

    def sweep(self) -> list[str]:
        """Removes what services left behind that are no more, and returns the names. One in use stays."""
        removed = []
        for folder in self.folders:
            for path in folder.glob(f"{PREFIX}*"):
                if not _alive(path.name):
                    try:
                        path.rmdir()
                    except OSError:
                        continue
                    removed.append(path.name)
        return sorted(set(removed))

    def own(self) -> list[str]:
        """The cgroups of this process that are there now."""
        return self.own_of(os.getpid())

    def own_of(self, pid: int) -> list[str]:
        return sorted({path.name for folder in self.folders for path in folder.glob(f"{PREFIX}{pid}-*")})


def _alive(name: str) -> bool:
    pid = name.removeprefix(PREFIX).partition("-")[0]
    return pid.isdigit() and os.path.exists(f"/proc/{pid}")


class LaneCgroup:
    def __init__(self, memory: Path, pids: Path, unified: bool, more: tuple[Path, ...] = ()) -> None:
        self._memory, self._pids, self._unified = memory, pids, unified
        self._folders = tuple(dict.fromkeys((memory, pids, *more)))
        self._spare = _SLACK
        self._limit = 0
        self._events = self._failures = -1
        self.cpu_usage = -1
        """A descriptor of the account of its CPU time, where there's one."""

    def create(self) -> None:
        """Raises OSError."""
        for folder in self._folders:
            folder.mkdir()
        self.limit_pids(PIDS)
        if self._unified:
            # one process too much is a job too much; the lane dies with it, and a fresh one takes its place
            (self._memory / "memory.oom.group").write_text("1")
            self._write_if_there("memory.swap.max", "0")
        else:
            self._write_if_there("memory.swappiness", "0")
            self._failures = os.open(self._memory / "memory.failcnt", os.O_RDONLY | os.O_CLOEXEC)
        events = self._memory / ("memory.events" if self._unified else "memory.oom_control")
        self._events = os.open(events, os.O_RDONLY | os.O_CLOEXEC)
        accounts = [folder / ("cpu.stat" if self._unified else "cpuacct.usage") for folder in self._folders]
        for account in accounts:
            if self.cpu_usage < 0 and account.exists():
                self.cpu_usage = os.open(account, os.O_RDONLY | os.O_CLOEXEC)

    def _write_if_there(self, name: str, text: str) -> None:
        if (path := self._memory / name).exists():
            path.write_text(text)

    def enter(self, pid: int) -> None:
        """Moves a process in, whose children then start inside. What it already holds stays charged elsewhere."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def settle(self, spare_bytes: int) -> None:
        """Once the lane is up: it may take what it takes now, and `spare_bytes`, beside what its programs take."""
        usage = "memory.current" if self._unified else "memory.usage_in_bytes"
        self._spare = int((self._memory / usage).read_text()) + spare_bytes + _SLACK

    def limit_pids(self, pids: int) -> None:
        (self._pids / "pids.max").write_text(str(pids))

    def limit_memory(self, job_bytes: int) -> None:
        """Only where it changes: a write costs as much as a small program. Raises OSError where it can't be."""
        if job_bytes != self._limit:
            name = "memory.max" if self._unified else "memory.limit_in_bytes"
            (self._memory / name).write_text(str(job_bytes + self._spare))
            self._limit = job_bytes

    def kills(self) -> Kills:
        found = dict(line.split() for line in os.pread(self._events, 512, 0).splitlines())
        at_limit = found.get(b"oom", 0) if self._unified else os.pread(self._failures, 32, 0)
        return Kills(int(found.get(b"oom_kill", 0)), int(at_limit))

    def remove(self) -> bool:
        """Once its processes are dead, which may take the kernel a moment. False if it wouldn't go."""
        for descriptor in (self._events, self._failures, self.cpu_usage):
            if descriptor >= 0:
                os.close(descriptor)
        self._events = self._failures = self.cpu_usage = -1
        gone = [_remove(folder) for folder in self._folders]
        return all(gone)


def _remove(folder: Path) -> bool:
    give_up = time.monotonic() + _REMOVE_LIMIT
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        else:
            return True


def find(proc: Path = Path("/proc")) -> Home:
    """Where this process may make cgroups with a limit on memory and one on process ids. Raises NoCgroup.

    Version 1 where its memory and pids controllers are mounted; else version 2, at the process's own cgroup or the
    nearest one above that gives these controllers to its children (cgroups(7)).
    """
    memberships = _memberships(proc)
    mounts = _mounts(proc)
    if {"memory", "pids"} <= memberships.keys() & mounts.keys():
        memory, pids = (_folder(mounts[name], memberships[name]) for name in ("memory", "pids"))
        for folder in (memory, pids):
            _demand_writable(folder)
        more = [
            _folder(mounts[name], memberships[name]) for name in _USEFUL if name in memberships.keys() & mounts.keys()
        ]
        return Home(memory, pids, False, tuple(folder for folder in dict.fromkeys(more) if _is_writable(folder)))
    if "" not in mounts or "" not in memberships:
        raise NoCgroup("no cgroup file system with the controllers memory and pids is mounted")
    top = mounts[""].point
    folder = _folder(mounts[""], memberships[""])
    candidates = [folder, *(above for above in folder.parents if above.is_relative_to(top))]
    reasons = []
    for candidate in candidates:
        try:
            _delegate(candidate, alone=candidate == folder)
        except NoCgroup as error:
            reasons.append(str(error))
        else:
            return Home(candidate, candidate, unified=True)
    raise NoCgroup(reasons[0])


def find_or_reason() -> Home | NoCgroup:
    try:
        return find()
    except NoCgroup as error:
        return error
    except OSError as error:
        return NoCgroup(str(error))


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    point: Path


def _memberships(proc: Path) -> dict[str, str]:
    """Controller (none for version 2) to the path of this process's cgroup."""
    found = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _mounts(proc: Path) -> dict[str, _Mount]:
    """Controller (none for version 2) to where its hierarchy is mounted: proc(5) on mountinfo."""
    found: dict[str, _Mount] = {}
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, point = fields.split(" ")[3:5]
        names = {"cgroup2": [""], "cgroup": options.replace(" ", ",").split(",")}.get(kind, [])
        found.update({name: _Mount(root, Path(point)) for name in names})
    return found


def _folder(mount: _Mount, path: str) -> Path:
    """A container sees a part of the hierarchy, and may be given its path in the whole."""
    inner = path.removeprefix(mount.root) if mount.root != "/" else path
    folder = mount.point / inner.lstrip("/")
    return folder if folder.is_dir() else mount.point


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def _demand_writable(folder: Path) -> None:
    if not _is_writable(folder):
        raise NoCgroup(f"{folder} can't be written")


def _delegate(folder: Path, alone: bool) -> None:
    """Sees to it that children of `folder` have both controllers, and cpu if it's offered. Raises NoCgroup."""
    _demand_writable(folder)
    offered = (folder / "cgroup.controllers").read_text().split()
    if missing := {"memory", "pids"} - set(offered):
        raise NoCgroup(f"{folder} lacks the controllers {', '.join(sorted(missing))}")
    control = folder / "cgroup.subtree_control"
    _enable(control, alone)
    if "cpu" in offered and "cpu" not in control.read_text().split():
        with contextlib.suppress(OSError):  # where a task of the machine is scheduled in real time
            control.write_text("+cpu")


def _enable(control: Path, alone: bool) -> None:
    folder = control.parent
    if {"memory", "pids"} <= set(control.read_text().split()):
        return
    try:
        try:
            control.write_text("+memory +pids")
        except OSError:
            # a cgroup has processes or controlled children, not both: this process steps aside if it's the only one
            if not alone or (folder / "cgroup.procs").read_text().split() != [str(os.getpid())]:
                raise
            aside = folder / "ratchet-service"
            aside.mkdir(exist_ok=True)
            (aside / "cgroup.procs").write_text(str(os.getpid()))
            control.write_text("+memory +pids")
    except OSError as error:
        raise NoCgroup(f"{control}: {error.strerror}") from None
