"""The keeper of one lane: enter.py starts it.

Started with a clean environment and one descriptor, it locks itself in, makes the template that programs are forked
from, then serves one request at a time: a header, then a payload that it leaves in the socket for the program to read.
So no program, no test and no result is in the memory that any process inherits: those that the zygote collects go to a
mapping that forks leave out. Ends when the service hangs up.
"""

import builtins
import contextlib
import fcntl
import gc
import importlib
import json
import marshal
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import checking
import command
import crowd
import jail
import job
import libc
import scratch
import seccomp
from children import Budget, Child, Pipe, high
from template import Template, complain

# What programs import most, loaded once: each takes 0.2 to 3 ms when cold. What few import would cost all the others:
# the kernel takes 0.1 microseconds for each page that a fork inherits, so dataclasses alone (which bring inspect) 30.
_WARM = "bisect collections datetime functools heapq itertools json math operator re string typing"
# `random` would seed itself anew after each fork; here every program finds it as seed(0) leaves it.
_register, os.register_at_fork = os.register_at_fork, lambda **_: None  # type: ignore[assignment]
for _name in ("random", *_WARM.split()):
    __import__(_name)
os.register_at_fork = _register

FILE_BYTES = 16 << 20
_LENGTH = struct.Struct("!I")
_FIRST_LOOK = 0.005  # seconds


class Zygote:
    def __init__(self, connection: socket.socket, locked: "Locked", setup: dict, complaints: int) -> None:
        self._connection, self._complaints = connection, complaints
        self._scratch = locked.scratch
        self._own_pids = "pid-ns" in locked.layers
        self._meter = None if "private-root" in locked.layers else scratch.Meter(self._scratch)
        self._group = locked.group
        self._filter = seccomp.Filter(processes=bool(locked.group)) if "seccomp" in locked.layers else None
        self._result, self._tests = Pipe(setup["result"]), Pipe(64 << 10)
        self._output, self._error = Pipe(setup["output"]), Pipe(setup["output"])
        self._data_bytes = locked.data_bytes
        # Where programs expect them, from now on; their descriptor 0 is this process's own, /dev/null.
        for place, pipe in enumerate((self._output, self._error, self._result), start=1):
            pipe.open(place)
        self._core = -1
        # Whether a program may leave processes behind: not where seccomp lets it make none.
        self._strays = self._own_pids and bool(self._group or not self._filter)
        self._template: Template
        os.chdir(self._scratch)

    def rehearse(self) -> None:
        """Does a few times what every program will do first. Python rewrites code that it runs often, and remembers
        where it found what it looked for: each program would else have to copy what that changes."""
        calls = ("def f(x):\n    return x + 1\n", "f", [[0], [1]])
        payload = marshal.dumps(("calls", "rehearsal", calls, "", [], 1 << 30, 5.0))
        payload = _LENGTH.pack(len(payload)) + payload
        reader, writer = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for _ in range(20):
            os.write(writer, payload)
            mode, nonce, arguments, stdin, *_ = receive(reader)
            os.closerange(255, 256)
            job.make_stdin(stdin)
            if self._filter:
                self._filter.rehearse()
            RUNNERS[mode](job.Frames(nowhere, nonce), *arguments)
        for descriptor in (reader, writer, nowhere):
            os.close(descriptor)
        del sys.modules["program"]

    def make_template(self) -> None:
        """Raises Lacking where processes could not be counted."""
        self._template = Template(self._be_child, self._complaints)
        if self._group and not self._group.leave_out(self._template.pid):
            raise Lacking("programs that start processes can't be held here: /proc does not show them")

    def end_template(self) -> None:
        """So that no zombie of this lane is left to whatever is pid 1 of the machine or the container."""
        self._template.end()

    def serve(self) -> None:
        while True:
            try:
                head = receive(self._connection.fileno())
            except EOFError:
                return
            if head["mode"] == "forks":
                send(self._connection, {"seconds": self._template.seconds_of_forks(head["count"])})
            else:
                self._run(head)

    def _run(self, head: dict) -> None:
        pipes: tuple[Pipe, ...] = (self._result, self._output, self._error)
        channel = None
        if head["mode"] == "check":
            channel = socket.socketpair()
            self._tests.open()
            pipes += (self._tests,)
        children: list[Child] = []
        if self._group:
            self._group.forget()
        self._move_to(head["core"])
        budget = Budget(children, head["cpu"], head["idle"], head["wall"], self._group, head["memory"])
        try:
            if channel:
                children.append(self._template.fork([channel[0].fileno()], awaited=False))
                channel[0].close()
                self._await_payload_read(children[0], channel[1])
                children.append(self._template.fork([channel[1].fileno(), self._tests.writer]))
                channel[1].close()
                self._tests.close_writer()
            else:
                children.append(self._template.fork())
            end = self._watch(children, head, budget, pipes)
        finally:
            for child in reversed(children):
                child.close()
            strays_cpu = self._template.end_strays() if self._strays else 0.0
        readers = {pipe.reader: pipe for pipe in pipes}
        for reader in select.select(readers, (), (), 0)[0]:
            readers[reader].fill()
        end = self._overflow(head) or end
        if not self._result.used or (channel and not self._tests.used):
            raise SystemExit("a child died before it had read its payload")
        cpu = sum(child.cpu for child in children) + strays_cpu
        self._answer(head, children, end, cpu, budget.elapsed)
        for pipe in pipes[:3]:
            pipe.renew()
        if channel:
            self._tests.wipe()
            self._tests.close()
        self._clean_scratch()

    def _move_to(self, core: int) -> None:
        """All of the lane: its processes take turns, and to wake one on another core costs more than it gains."""
        if core != self._core:
            with contextlib.suppress(OSError):  # the core was taken from the service since it started
                for pid in (0, self._template.pid):
                    os.sched_setaffinity(pid, {core})
            self._core = core

    def _await_payload_read(self, program: Child, channel: socket.socket) -> None:
        """The program must have left the socket before the tests come through it. `channel`: it holds the other end."""
        poll = select.poll()
        poll.register(self._result.reader, select.POLLIN)
        poll.register(channel.fileno(), select.POLLHUP)
        poll.poll()
        self._result.fill()
        if not self._result.used:
            raise SystemExit("a program died before it had read its payload")
        program.number()  # the tester's will come the same way

    def _watch(self, children: list[Child], head: dict, budget: Budget, pipes: tuple[Pipe, ...]) -> str:
        """Until the last of `children` ends by itself (exited) or at a limit: cpu, idle, wall, output, result.

        No limit counts before that child has read its payload, which would be left in the way of the next request.
        Most programs end within milliseconds and write less than a pipe holds, so at first it only waits.
        """
        deciding, told = children[-1], pipes[-1] if head["mode"] == "check" else self._result
        if deciding.ends_within(_FIRST_LOOK):
            return "exited"
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLRDHUP)
        poll.register(deciding.descriptor, select.POLLIN)
        streams = {pipe.reader: pipe for pipe in pipes}
        for reader in streams:
            poll.register(reader, select.POLLIN)
        ready = poll.poll(0)
        while True:
            for descriptor, _ in ready:
                if descriptor in streams and not streams[descriptor].fill():
                    poll.unregister(descriptor)
            if told.used and (limit := self._overflow(head)):
                return limit
            if any(descriptor == deciding.descriptor for descriptor, _ in ready):
                deciding.reap()
                return "exited"
            if any(descriptor == self._connection.fileno() for descriptor, _ in ready):
                raise SystemExit("the service hung up")
            if told.used and (limit := budget.spent()):
                return limit
            if told.used and self._meter and self._meter.over():
                return "memory"
            ready = poll.poll(1000 * budget.patience())

    def _overflow(self, head: dict) -> str:
        if self._output.used + self._error.used > head["output"]:
            return "output"
        return "result" if self._result.used == self._result.size else ""

    def _be_child(self, descriptors: Sequence[int]) -> int:
        """`descriptors`: none, or that of the channel between program and tests; the tester's way out comes after."""
        mode, nonce, arguments, stdin, files, memory, cpu = receive(self._connection.fileno())
        if files:
            command.take_files(self._connection.fileno(), files)
            sys.path.insert(0, self._scratch)  # where Python would look for modules first
        if len(descriptors) > 1:
            os.dup2(descriptors[1], job.RESULT_FD)
        if descriptors:
            os.dup2(descriptors[0], job.CHANNEL_FD)
        os.write(job.RESULT_FD, b"\n")
        os.closerange(job.CHANNEL_FD + bool(descriptors), 256)
        job.make_stdin(stdin)
        if not self._own_pids:  # there, all end with pid 1
            libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        if self._group:
            # a signal to its group must not reach the lane's own processes
            os.setsid()
            # for the exact count of shared memory: crowd.py. Nobody else here has a /proc, or may trace.
            libc.prctl(libc.PR_SET_DUMPABLE, 1)
        jail.limit_program(memory + self._data_bytes, cpu, bool(self._group))
        if self._filter:
            self._filter.load()
        return RUNNERS[mode](job.Frames(job.RESULT_FD, nonce), *arguments)

    def _answer(self, head: dict, children: list[Child], end: str, cpu: float, wall: float) -> None:
        room = head["output"]
        output = self._output.content(room)
        blobs = [self._result.content(self._result.size), output, self._error.content(room - len(output))]
        blobs.append(self._tests.content(self._tests.size))
        fetched = command.Fetched(self._scratch, head["fetch"]) if head["fetch"] else None
        peak = self._group.peak if self._group else 0
        max_rss = max(peak, *[child.max_rss for child in children])
        fields = {
            "end": end,
            "status": children[0].status,
            "cpu": cpu,
            "wall": wall,
            "max_rss": max_rss,
            "blobs": [len(blob) for blob in blobs],
            "files": fetched.sizes if fetched else [],
        }
        self._connection.sendall(b"".join((frame(fields), *blobs)))
        for blob in blobs:
            blob.release()
        if fetched:
            fetched.send(self._connection.fileno())

    def _clean_scratch(self) -> None:
        """After the answer. What can't be removed ends the lane, and the next one starts on a fresh folder."""
        try:
            scratch.empty(self._scratch)
        except OSError as error:
            raise SystemExit(f"the scratch folder can't be emptied: {error}") from None


RUNNERS = {
    "calls": job.run_calls,
    "script": job.run_script,
    "check": checking.serve_program,
    "tests": checking.run_tests,
    "command": command.run_command,
}


def receive(descriptor: int) -> Any:
    """A header or a payload: see protocol.py. Raises EOFError when the service hung up."""
    (length,) = _LENGTH.unpack(job.read_exactly(descriptor, _LENGTH.size))
    return marshal.loads(job.read_exactly(descriptor, length))


def frame(message: dict) -> bytes:
    data = json.dumps(message).encode()
    return _LENGTH.pack(len(data)) + data


def send(connection: socket.socket, message: dict) -> None:
    connection.sendall(frame(message))


class Lacking(Exception):
    """A lane of this kind would be weaker than it says."""


class Locked(NamedTuple):
    """What `lock_in` came to. `refused`: why there are no namespaces, where there are none. `data_bytes`: what the
    packages of a runtime take, which no program pays for out of its own limit."""

    layers: list[str]
    scratch: str
    refused: str
    group: crowd.Crowd | None
    data_bytes: int


def lock_in(stage: str, uid: int, setup: dict) -> Locked:
    """Every layer that this kernel and this user allow. See jail.py. `setup`: see protocol.py."""
    layers: list[str] = []
    folder = stage
    processes, more, packages = setup["processes"], tuple(setup["paths"]), setup["packages"]
    proc = high(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)) if processes else None
    statm = high(os.open("/proc/self/statm", os.O_RDONLY))
    refused = jail.why_not_unshare(stage, more, packages)
    if not refused:
        layers += jail.unshare()
        owner = uid if os.geteuid() == 0 else os.geteuid()
        jail.change_root(stage, scratch.SIZE, owner, more, packages, processes)
        packages = packages and jail.PACKAGES
        folder = jail.SCRATCH
        layers.append("private-root")
    if os.geteuid() == 0:
        if refused:
            os.chown(stage, uid, uid)
        jail.become(uid)
        layers.append("unprivileged-uid")
    if not os.access(os.__file__, os.R_OK):
        raise SystemExit(f"{os.__file__} can't be read by uid {uid}: programs couldn't import the standard library")
    jail.seal()
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    layers += ["no-new-privs", "rlimits", "clean-environment"]
    if jail.confine_files(folder, (*more, packages) if packages else more, proc):
        layers.append("landlock")
    if seccomp.supported():
        layers.append("seccomp")
    data_bytes = _warm_up(packages, setup["warm"], statm)
    os.close(statm)
    scratch.empty(folder)
    return Locked(layers, folder, refused, _group(layers, proc), data_bytes)


def _group(layers: list[str], proc: int | None) -> crowd.Crowd | None:
    """Where programs may start processes. Raises Lacking where these could not be held."""
    if proc is None:
        return None
    lacking = {"pid-ns", "net-ns", "private-root", "seccomp"} - set(layers)
    if lacking:
        raise Lacking(f"programs that start processes can't be held here without {', '.join(sorted(lacking))}")
    return crowd.Crowd(proc)


def _warm_up(packages: str, names: list[str], statm: int) -> int:
    """Loads what programs import most of a runtime's packages: inside the cage, by the paths that programs know.

    Returns the bytes of writable memory that this process has then: what RLIMIT_DATA counts.
    """
    if not packages:
        return 0
    sys.path.append(packages)
    os.environ["PYTHONPATH"] = packages  # for the Pythons that a program starts
    for name in names:
        importlib.import_module(name)
    return int(os.pread(statm, 256, 0).split()[5]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    descriptor, parent, uid = high(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[4])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    del os.environ["LD_BIND_NOW"]  # it has done its part, before this line
    connection = socket.socket(fileno=descriptor)
    setup = receive(descriptor)
    try:
        locked = lock_in(sys.argv[3], uid, setup)
    except Lacking as lacking:
        send(connection, {"lacking": str(lacking)})
        return
    builtins.exit = builtins.quit = sys.exit  # site.py would add them, and programs count on it
    for name in (
        "children",
        "codec",
        "command",
        "crowd",
        "jail",
        "job",
        "landlock",
        "libc",
        "checking",
        "references",
        "scratch",
        "seccomp",
        "syscalls",
        "template",
        "zygote",
    ):
        del sys.modules[name]
    del sys.path[0]
    sys.argv[:] = ["program.py"]
    sys.modules["random"].seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    job.make_streams()
    jail.limit_lane(FILE_BYTES, bool(locked.group))
    complaints = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 100)  # descriptor 2 will be the programs' own
    zygote = Zygote(connection, locked, setup, complaints)
    zygote.rehearse()
    gc.collect()
    gc.freeze()
    try:
        zygote.make_template()
    except Lacking as lacking:
        send(connection, {"lacking": str(lacking)})
        return
    send(connection, {"layers": locked.layers, "refused": locked.refused, "python": sys.version.split()[0]})
    try:
        zygote.serve()
    except BaseException as end:
        complain(complaints, end)
        raise
    finally:
        zygote.end_template()
