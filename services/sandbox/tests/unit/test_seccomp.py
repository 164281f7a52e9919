"""The filters for both machines, run by an interpreter of classic BPF: what the kernel would answer to a call."""

import errno
import struct

import pytest

from sandbox_service.cage.kernel import seccomp

ALLOW, KILL, NOTHING = 0x7FFF0000, 0x80000000, 0x50000
EPERM, ENOSYS, ENOTTY = NOTHING | errno.EPERM, NOTHING | errno.ENOSYS, NOTHING | errno.ENOTTY
OWN_PID = 4711
MACHINES = ["x86_64", "aarch64"]


def answer(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Of linux/filter.h, the instructions that the filters use."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0, *padded)
    place = accumulator = 0
    while True:
        code, yes, no, k = struct.unpack_from("=HBBI", program, place * 8)
        place += 1
        if code == 0x06:
            return k
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x05:
            place += k
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[code]
            place += yes if holds else no


SHARED_BYTES = 1 << 14


class Machine:
    def __init__(self, name: str, processes: bool, commands: bool = False) -> None:
        self.arch = seccomp.AUDIT_ARCH[name]
        self.numbers = seccomp.syscalls.numbers_of(name)
        self._lane = seccomp.assemble_for_lane(name, processes, SHARED_BYTES, commands)
        self._zygote = seccomp.assemble_for_zygote(name, processes, own_locks=True, own_attributes=True)
        own = () if processes else (seccomp.assemble(name, OWN_PID),)
        self._filters = (self._lane, self._zygote, *own)

    def call(self, name: str, *arguments: int) -> int:
        return self.raw(self.numbers[name], self.arch, *arguments)

    def raw(self, number: int, arch: int, *arguments: int) -> int:
        """All filters are asked, and the strictest answer counts."""
        answers = {answer(program, arch, number, *arguments) for program in self._filters}
        return KILL if KILL in answers else min(answers)

    def keeper(self, name: str, *arguments: int) -> int:
        return answer(self._lane, self.arch, self.numbers[name], *arguments)

    def zygote(self, name: str, *arguments: int) -> int:
        answers = (self.keeper(name, *arguments), answer(self._zygote, self.arch, self.numbers[name], *arguments))
        return min(answers)


@pytest.fixture(params=MACHINES)
def strict(request: pytest.FixtureRequest) -> Machine:
    return Machine(request.param, processes=False)


@pytest.fixture(params=MACHINES)
def roomy(request: pytest.FixtureRequest) -> Machine:
    return Machine(request.param, processes=True)


def test_what_is_denied_is_denied(strict: Machine) -> None:
    known = [name for name in seccomp.DENIED if name in strict.numbers]
    assert len(known) >= len(seccomp.DENIED) - 3  # ARM64 has no fork, no vfork and no old inotify_init
    assert {strict.call(name) for name in known} == {EPERM}


ARGUMENTS = {"clone", "clone3", "kill", "tgkill", "prlimit64", "ioctl", "setpriority"}  # which decide


def test_what_a_program_needs_is_allowed(strict: Machine) -> None:
    needed = strict.numbers.keys() - set(seccomp.DENIED) - ARGUMENTS
    assert len(needed) > 170
    assert {strict.call(name) for name in needed - seccomp.WITHOUT_EFFECT} == {ALLOW}
    assert {strict.call(name) for name in seccomp.WITHOUT_EFFECT} == {NOTHING}


def test_what_is_not_known_is_not_there(strict: Machine, roomy: Machine) -> None:
    """uretprobe and uprobe, io_submit of what is refused anyway, open_tree_attr, listns, and whatever comes."""
    for machine in (strict, roomy):
        known = set(machine.numbers.values())
        unknown = [number for number in range(1024) if number not in known]
        assert {335, 336, 467, 468, 470, 471, 472, 500} <= set(unknown)
        assert {machine.raw(number, machine.arch) for number in unknown} == {ENOSYS}


def test_threads_and_no_processes(strict: Machine) -> None:
    thread = 0x3D0F00
    assert strict.call("clone", thread) == ALLOW
    assert strict.call("clone", 17) == EPERM
    assert strict.call("clone3") == ENOSYS


@pytest.mark.parametrize("name", ["kill", "tgkill", "prlimit64"])
def test_signals_and_limits_for_oneself(strict: Machine, name: str) -> None:
    assert strict.call(name, OWN_PID) == ALLOW
    assert strict.call(name, 1) == EPERM
    assert strict.call(name, 0) == (ALLOW if name == "prlimit64" else EPERM)


def test_memory_that_is_counted(strict: Machine) -> None:
    assert strict.call("mmap", 0, 4096, 3, 0x22) == ALLOW
    for length in (SHARED_BYTES + 1, 1 << 30, 1 << 32, (1 << 32) + 4096):
        assert strict.call("mmap", 0, length, 3, 0x21) == EPERM
        assert strict.call("mmap", 0, length, 3, 0x23) == EPERM
        assert strict.call("mmap", 0, length, 3, 0x22) == ALLOW
    assert strict.call("mmap", 0, SHARED_BYTES, 3, 0x21) == ALLOW
    assert strict.call("mmap", 0, 1 << 30, 3, 0x01) == ALLOW


def test_sockets_keep_no_more_than_is_usual(strict: Machine, roomy: Machine) -> None:
    for machine in (strict, roomy):
        assert {machine.call("setsockopt", 5, 1, option) for option in (7, 8, 32, 33)} == {NOTHING}
        assert {machine.call("setsockopt", 5, 1, option) for option in (2, 16, 20)} == {ALLOW}


def test_it_stays_mortal_and_is_not_dumped(strict: Machine) -> None:
    assert strict.call("prctl", 1) == EPERM
    assert strict.call("prctl", 4) == EPERM
    assert strict.call("prctl", 15) == ALLOW


def test_what_a_lane_needs_for_itself(strict: Machine, roomy: Machine) -> None:
    for machine in (strict, roomy):
        assert {machine.keeper(name) for name in ("memfd_create", "mount", "umount2", "sched_setaffinity")} == {ALLOW}
        assert machine.keeper("prlimit64", OWN_PID) == ALLOW
        assert machine.zygote("clone", 17) == ALLOW
        assert machine.zygote("kill", -1 & 0xFFFFFFFF) == ALLOW
        assert machine.zygote("prctl") == ALLOW
        assert {machine.zygote(name) for name in ("memfd_create", "mount", "umount2", "sched_setaffinity")} == {EPERM}


def test_requests_that_reach_others(strict: Machine, roomy: Machine) -> None:
    for machine in (strict, roomy):
        # typing into a terminal, owning a descriptor's signals, encrypting, stopping a file system: all but a few
        for request in (0x5412, 0x8901, 0x8902, 0xC0506617, 0xC0045877, 0x40049409):
            assert machine.call("ioctl", 0, request) == ENOTTY
        assert machine.call("ioctl", 0, 0x5401) == ALLOW
        # owners of signals, leases, marks; not copies of descriptors, their flags, and locks
        assert {machine.call("fcntl", 0, request) for request in (8, 10, 15, 1024, 1026, 1031, 1036, 1038)} == {EPERM}
        assert {machine.call("fcntl", 0, request) for request in (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)} == {ALLOW}
        assert machine.call("setpriority", 0, 0, 19) == ALLOW
        for which, who in ((0, 1), (0, OWN_PID), (1, 0), (2, 0)):
            assert machine.call("setpriority", which, who, 19) == EPERM


@pytest.mark.parametrize("name", MACHINES)
def test_what_would_reach_others_where_files_are_shared(name: str) -> None:
    numbers, arch = seccomp.syscalls.numbers_of(name), seccomp.AUDIT_ARCH[name]
    attributes = [name for name in seccomp.ATTRIBUTES if name in numbers]
    assert len(attributes) >= 15
    for own_locks, own_attributes in ((True, True), (True, False), (False, True), (False, False)):
        program = seccomp.assemble_for_zygote(name, False, own_locks, own_attributes)
        locks, changes = ALLOW if own_locks else NOTHING, ALLOW if own_attributes else EPERM
        assert {answer(program, arch, numbers[call]) for call in ("sync", "syncfs")} == {NOTHING}
        assert answer(program, arch, numbers["flock"], 3, 2) == locks
        assert {answer(program, arch, numbers["fcntl"], 3, request) for request in (6, 7, 37, 38)} == {locks}
        assert {answer(program, arch, numbers["fcntl"], 3, request) for request in (1, 4, 5, 36)} == {ALLOW}
        assert {answer(program, arch, numbers[call]) for call in attributes} == {changes}
        assert {answer(program, arch, numbers[call]) for call in ("mmap", "clone", "ioctl")} == {ALLOW}


def test_the_other_doors_of_the_kernel(strict: Machine, roomy: Machine) -> None:
    i386, arm = 0x40000003, 0x40000028
    for machine in (strict, roomy):
        for arch in {i386, arm, *seccomp.AUDIT_ARCH.values()} - {machine.arch}:
            assert machine.raw(20, arch) == KILL
        assert machine.raw(0x40000000 | 39, machine.arch) == EPERM


def test_processes_where_they_may_be(roomy: Machine) -> None:
    assert roomy.call("clone", 17) == ALLOW
    assert roomy.call("clone", 0x10000000 | 17) == EPERM
    assert roomy.call("socket", 1) == ALLOW
    assert roomy.call("socket", 2) == EPERM
    assert roomy.call("prlimit64", 0) == ALLOW
    assert roomy.call("prlimit64", 1) == EPERM
    for name in seccomp.DENIED:
        if name in roomy.numbers and name != "socket":
            assert roomy.call(name) == (ALLOW if name in seccomp.WITH_PROCESSES else EPERM), name


def test_numbers_are_distinct() -> None:
    for name in MACHINES:
        numbers = seccomp.syscalls.numbers_of(name)
        assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize("name", MACHINES)
def test_workspaces_have_tcp_and_its_old_options(name: str) -> None:
    machine, tcp, stream = Machine(name, processes=True, commands=True), 2, 1
    for kind in (stream, stream | 0x80000, stream | 0x800):
        assert machine.call("socket", tcp, kind, 0) == machine.call("socket", tcp, kind, 6) == ALLOW
    assert machine.call("socket", 1, 2, 0) == ALLOW
    refused = [
        (tcp, 2, 0),
        (tcp, 3, 6),
        (tcp, stream, 132),
        (tcp, stream, 262),
        (10, stream, 0),
        (16, 3, 0),
        (17, 3, 0),
    ]
    assert {machine.call("socket", *arguments) for arguments in refused} == {EPERM}
    assert {machine.call("setsockopt", 3, 6, option) for option in (1, 4, 9, 18)} == {ALLOW}
    assert {machine.call("setsockopt", 3, 6, option) for option in (19, 23, 31)} == {EPERM}
    assert machine.call("setsockopt", 3, 1, 2) == ALLOW
    assert machine.call("setsockopt", 3, 1, 7) == NOTHING
    assert machine.call("setsockopt", 3, 0, 64) == EPERM
    lane = Machine(name, processes=True)
    assert lane.call("socket", tcp, stream, 0) == EPERM
