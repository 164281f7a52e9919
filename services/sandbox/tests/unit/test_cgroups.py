"""Cgroups on a folder tree that looks like a kernel's: where they're made, what is written, what is read."""

import os
from pathlib import Path

import pytest

from sandbox_service.adapters.lanes.cgroups import Home, Kills, NoCgroup, find


class Machine:
    """A /proc and a /sys/fs/cgroup made of plain files. The kernel's own part is played by hand."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroup = root / "proc", root / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.cgroup.mkdir()

    def tell(self, membership: str, mounts: list[str]) -> None:
        (self.proc / "self/cgroup").write_text(membership)
        (self.proc / "self/mountinfo").write_text("".join(f"{line}\n" for line in mounts))

    def unified(self, path: str = "/", root: str = "/") -> None:
        self.tell(f"0::{path}\n", [f"30 25 0:26 {root} {self.cgroup} rw,relatime shared:4 - cgroup2 cgroup2 rw"])

    def folder(self, name: str, controllers: str, enabled: str, processes: str = "") -> Path:
        folder = self.cgroup / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(enabled)
        (folder / "cgroup.procs").write_text(processes)
        return folder


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def made(home: Home, monkeypatch: pytest.MonkeyPatch):
    """A lane's cgroup whose files appear with its folder, as the kernel makes them."""
    mkdir = Path.mkdir

    def with_files(path: Path, *args: object, **kwargs: object) -> None:
        mkdir(path, *args, **kwargs)  # type: ignore[arg-type]
        (path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n")
        (path / "memory.current").write_text("1000\n")
        (path / "memory.swap.max").write_text("max\n")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", with_files)
        return home.make()


def test_a_delegated_subtree(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.folder("user.slice/ratchet.service", "cpu memory pids", "memory pids")
    machine.unified("/user.slice/ratchet.service")
    home = find(machine.proc)
    assert home == Home(folder, folder, unified=True)
    group = made(home, monkeypatch)
    (name,) = home.own()
    lane = folder / name
    assert name.startswith(f"ratchet-sandbox-{os.getpid()}-")
    assert (lane / "pids.max").read_text() == "256"
    assert (lane / "memory.oom.group").read_text() == "1"
    assert (lane / "memory.swap.max").read_text() == "0"
    group.enter(4711)
    assert (lane / "cgroup.procs").read_text() == "4711"
    group.settle(500)
    group.limit_memory(1 << 20)
    assert (lane / "memory.max").read_text() == str((1 << 20) + 1000 + 500 + (64 << 20))
    assert group.kills() == Kills(2, at_limit=3)


def test_the_limit_is_written_only_where_it_changes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.folder("", "memory pids", "memory pids")
    machine.unified()
    home = find(machine.proc)
    group = made(home, monkeypatch)
    limit = folder / home.own()[0] / "memory.max"
    group.limit_memory(1 << 20)
    limit.unlink()
    group.limit_memory(1 << 20)
    assert not limit.exists()
    group.limit_memory(2 << 20)
    assert limit.exists()


def test_controllers_are_asked_for(machine: Machine) -> None:
    folder = machine.folder("", "io memory pids", "io")
    machine.unified()
    assert find(machine.proc).memory == folder
    assert (folder / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_so_is_the_cpu_controller_where_it_is_offered(machine: Machine) -> None:
    folder = machine.folder("", "cpu memory pids", "memory pids")
    machine.unified()
    find(machine.proc)
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu"


def test_the_nearest_cgroup_above_that_gives_its_controllers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login session has processes, this one among others, and can't have controlled children beside them."""
    machine.folder("", "memory pids", "memory pids")
    above = machine.folder("user.slice", "memory pids", "memory pids")
    session = machine.folder("user.slice/session.scope", "memory pids", "", f"{os.getpid()}\n1\n")
    machine.unified("/user.slice/session.scope")
    busy(session, monkeypatch)
    assert find(machine.proc).memory == above


def busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel: no controllers for children while processes are in `folder` itself."""
    write_text = Path.write_text

    def guarded(path: Path, text: str) -> int:
        if path == folder / "cgroup.subtree_control" and (folder / "cgroup.procs").read_text():
            raise OSError(16, "Device or resource busy")
        if path.name == "cgroup.procs" and path.parent.parent == folder:
            write_text(folder / "cgroup.procs", "")
        return write_text(path, text)

    monkeypatch.setattr(Path, "write_text", guarded)


def test_a_service_alone_in_its_container_steps_aside(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.folder("", "memory pids", "", f"{os.getpid()}\n")
    machine.unified("/../../docker/abc", root="/docker/abc")
    busy(folder, monkeypatch)
    assert find(machine.proc).memory == folder
    assert (folder / "ratchet-service/cgroup.procs").read_text() == str(os.getpid())


def test_version_1_where_its_controllers_are_mounted(machine: Machine) -> None:
    for name in ("memory/docker/abc", "pids"):
        (machine.cgroup / name).mkdir(parents=True)
    mounts = [
        f"35 31 0:32 / {machine.cgroup}/memory rw,relatime - cgroup cgroup rw,memory",
        f"39 31 0:36 / {machine.cgroup}/pids rw,relatime - cgroup cgroup rw,pids",
        f"41 31 0:38 / {machine.cgroup}/unified rw,relatime - cgroup2 cgroup2 rw",
    ]
    machine.tell("8:pids:/\n4:memory:/docker/abc\n0::/\n", mounts)
    assert find(machine.proc) == Home(machine.cgroup / "memory/docker/abc", machine.cgroup / "pids", unified=False)


def test_version_1_with_an_account_of_cpu_time(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("memory", "pids", "cpu,cpuacct")
    for name in names:
        (machine.cgroup / name).mkdir(parents=True)
    machine.tell(
        "8:pids:/\n4:memory:/\n2:cpu,cpuacct:/\n",
        [f"35 31 0:32 / {machine.cgroup}/{name} rw,relatime - cgroup cgroup rw,{name}" for name in names],
    )
    home = find(machine.proc)
    memory, pids, cpu = (machine.cgroup / name for name in names)
    assert home == Home(memory, pids, unified=False, more=(cpu,))
    mkdir = Path.mkdir

    def with_files(path: Path) -> None:
        mkdir(path)
        (path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
        (path / "memory.failcnt").write_text("0\n")
        if path.parent == cpu:
            (path / "cpuacct.usage").write_text("1000000000\n")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", with_files)
        group = home.make()
    assert os.read(group.cpu_usage, 20) == b"1000000000\n"
    assert group.kills() == Kills(1, at_limit=0)
    group.enter(4711)
    assert (cpu / home.own()[0] / "cgroup.procs").read_text() == "4711"


@pytest.mark.parametrize(
    ("controllers", "why"), [("cpu", "lacks the controllers memory, pids"), ("memory", "lacks the controllers pids")]
)
def test_without_controllers_there_is_no_cgroup(machine: Machine, controllers: str, why: str) -> None:
    machine.folder("", controllers, controllers)
    machine.unified()
    with pytest.raises(NoCgroup, match=why):
        find(machine.proc)


def test_nothing_mounted(machine: Machine) -> None:
    machine.tell("0::/\n", ["30 25 0:26 / /proc rw - proc proc rw"])
    with pytest.raises(NoCgroup, match="no cgroup file system"):
        find(machine.proc)


def test_leftovers_of_a_dead_service_are_removed_and_others_stay(tmp_path: Path) -> None:
    dead = next(pid for pid in range(4_000_000, 4_194_304) if not os.path.exists(f"/proc/{pid}"))
    for name in (f"ratchet-sandbox-{dead}-0", f"ratchet-sandbox-{os.getpid()}-0", "docker"):
        (tmp_path / name).mkdir()
    home = Home(tmp_path, tmp_path, unified=True)
    assert home.sweep() == [f"ratchet-sandbox-{dead}-0"]
    assert sorted(os.listdir(tmp_path)) == ["docker", f"ratchet-sandbox-{os.getpid()}-0"]
