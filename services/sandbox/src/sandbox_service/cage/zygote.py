"""The warm parent of all programs of one lane: `python -s -S -P zygote.py FD PARENT STAGE UID SCRATCH`.

Started with a clean environment and one descriptor, it locks itself in, then serves one request at a time: a header,
then a payload that it leaves in the socket for the child to read. So the zygote's memory, which every child inherits, holds no program, no
test and no result: those it collects go to a mapping that forks leave out. Ends when the service hangs up.
"""

import builtins
import fcntl
import gc
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import jail
import job
import libc
import opaque_test
import seccomp

# What programs import most, loaded once: bisect to typing take 0.2-8 ms each when cold.
for _name in ["bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "math", "operator", "random", "re", "string", "typing"]:
    __import__(_name)

FILE_BYTES = 16 << 20
SCRATCH_BYTES = 64 << 20
_LENGTH = struct.Struct("!I")
_MADV_DONTFORK = 10


class Pipe:
    """One way out of a child, collected up to `size` bytes into a mapping that no fork inherits."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(_MADV_DONTFORK)
        self._view = memoryview(self._map)
        self.size, self.used, self.reader, self.writer = size, 0, -1, -1

    def open(self) -> None:
        self.used = 0
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def fill(self) -> bool:
        """Takes what's there. False once there's nothing more to come, or no room for it."""
        while self.used < self.size:
            try:
                count = os.readv(self.reader, [self._view[self.used :]])
            except BlockingIOError:
                return True
            self.used += count
            if count == 0:
                break
        return False

    def close(self) -> None:
        self.close_writer()
        os.close(self.reader)
        self.reader = -1

    def content(self, limit: int) -> memoryview:
        return self._view[: min(self.used, limit)]

    def wipe(self) -> None:
        if self.used:
            self._map.madvise(mmap.MADV_DONTNEED)
            self.used = 0


class Child:
    """A forked process and what the kernel said about it."""

    def __init__(self, pid: int) -> None:
        self.pid, self.descriptor = pid, os.pidfd_open(pid)
        self.status: int | None = None
        self.cpu = 0.0
        self.max_rss = 0

    def cpu_so_far(self) -> float:
        if self.status is not None:
            return self.cpu
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # the CPU clock of a process: clock_getcpuclockid(3)
        except OSError:
            return 0.0

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        if self.status is None:
            _, status, usage = os.wait4(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
            self.cpu, self.max_rss = usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10

    def close(self) -> None:
        self.kill()
        self.reap()
        os.close(self.descriptor)


class Zygote:
    def __init__(self, connection: socket.socket, scratch: str, own_pids: bool, use_seccomp: bool, sizes: dict) -> None:
        self._connection = connection
        self._scratch = scratch
        self._own_pids = own_pids
        self._filter = seccomp.Filter() if use_seccomp else None
        self._result, self._tests = Pipe(sizes["result"]), Pipe(64 << 10)
        self._output, self._error = Pipe(sizes["output"]), Pipe(sizes["output"])
        self._pipes = (self._result, self._output, self._error, self._tests)
        self._null = os.open("/dev/null", os.O_RDWR)
        self._cores = len(os.sched_getaffinity(0))

    def serve(self) -> None:
        while True:
            try:
                head = receive(self._connection.fileno())
            except EOFError:
                return
            self._run(head)

    def _run(self, head: dict) -> None:
        started = time.monotonic()
        for pipe in self._pipes:
            pipe.open()
        channel = socket.socketpair() if head["mode"] == "check" else None
        children: list[Child] = []
        try:
            children.append(self._fork(head, head["payload"], self._result, channel and channel[0]))
            if channel:
                # the program must have left the socket before the tests come through it
                self._await_payload_read(children[0])
                children.append(self._fork({**head, "mode": "tests"}, head["tests"], self._tests, channel[1]))
                for end in channel:
                    end.close()
            for pipe in self._pipes:
                pipe.close_writer()
            end = self._watch(children, head, started)
        finally:
            for child in children:
                child.close()
            self._end_strays()
        for pipe in self._pipes:
            pipe.fill()
        if not self._result.used or (channel and not self._tests.used and end == "exited" and children[1].status == 97):
            raise SystemExit("a child died before it had read its payload")
        self._answer(head, children, end, time.monotonic() - started)
        self._clean_scratch()

    def _await_payload_read(self, child: Child) -> None:
        poll = select.poll()
        poll.register(self._result.reader, select.POLLIN)
        poll.register(child.descriptor, select.POLLIN)
        poll.poll()
        self._result.fill()

    def _watch(self, children: list[Child], head: dict, started: float) -> str:
        """Until the last of `children` has ended by itself or reached a limit: exited, cpu, wall, output, result, hangup."""
        deciding = children[-1]
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLRDHUP)
        poll.register(deciding.descriptor, select.POLLIN)
        streams = {pipe.reader: pipe for pipe in self._pipes}
        for reader in streams:
            poll.register(reader, select.POLLIN)
        while True:
            cpu_left = head["cpu"] - sum(child.cpu_so_far() for child in children)
            wall_left = head["wall"] - (time.monotonic() - started)
            if cpu_left <= 0 or wall_left <= 0:
                return "cpu" if cpu_left <= 0 else "wall"
            # threads burn CPU time faster than the clock runs
            ready = poll.poll(1 + 1000 * min(wall_left, max(cpu_left / self._cores, 0.005)))
            for descriptor, _ in ready:
                if descriptor in streams and not streams[descriptor].fill():
                    poll.unregister(descriptor)
            if self._output.used + self._error.used > head["output"]:
                return "output"
            if self._result.used == self._result.size:
                return "result"
            if any(descriptor == deciding.descriptor for descriptor, _ in ready):
                deciding.reap()
                return "exited"
            if any(descriptor == self._connection.fileno() for descriptor, _ in ready):
                raise SystemExit("the service hung up")

    def _fork(self, head: dict, length: int, result: Pipe, channel: socket.socket | None) -> Child:
        pid = os.fork()
        if pid:
            return Child(pid)
        status = 97
        try:
            status = self._be_child(head, length, result, channel)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}"[:512].encode("utf-8", "replace"))
        finally:
            os._exit(status)

    def _be_child(self, head: dict, length: int, result: Pipe, channel: socket.socket | None) -> int:
        raw = job.read_exactly(self._connection.fileno(), length)
        os.write(result.writer, b"\n")
        payload = json.loads(raw)
        moves = [self._null, self._output.writer, self._error.writer, result.writer]
        moves += [channel.fileno()] if channel else []
        # first out of the way of 0-4, then into place: a source may have the number of another's target
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in moves]
        for target, descriptor in enumerate(high):
            os.dup2(descriptor, target)
        os.closerange(len(high), 256)
        job.make_stdin(payload.get("stdin", ""))
        os.chdir(self._scratch)
        jail.limit(head["memory"], head["cpu"], FILE_BYTES)
        if self._filter:
            self._filter.load()
        job.fresh_streams()
        frames = job.Frames(job.RESULT_FD, payload.pop("nonce"))
        return RUNNERS[head["mode"]](payload, frames)

    def _end_strays(self) -> None:
        """As pid 1, kills whatever a program left behind. Elsewhere seccomp lets no program make a process."""
        if not self._own_pids:
            return
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _answer(self, head: dict, children: list[Child], end: str, wall: float) -> None:
        room = head["output"]
        output = self._output.content(room)
        blobs = [self._result.content(self._result.size), output, self._error.content(room - len(output))]
        blobs.append(self._tests.content(self._tests.size))
        answer = {
            "end": end,
            "status": children[0].status,
            "cpu": sum(child.cpu for child in children),
            "max_rss": max(child.max_rss for child in children),
            "wall": wall,
            "blobs": [len(blob) for blob in blobs],
        }
        send(self._connection, answer)
        for blob in blobs:
            self._connection.sendall(blob)
            blob.release()
        for pipe in self._pipes:
            pipe.wipe()
            pipe.close()

    def _clean_scratch(self) -> None:
        """After the answer. What can't be removed ends the lane, and the next one starts on a fresh folder."""
        try:
            for name in os.listdir(self._scratch):
                remove(os.path.join(self._scratch, name))
        except (OSError, RecursionError) as error:
            raise SystemExit(f"the scratch folder can't be emptied: {error}") from None


def remove(path: str) -> None:
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    for folder, names, _ in os.walk(path):
        # a program may have taken its own rights on a folder away
        os.chmod(folder, 0o700)
        for name in names:
            if not os.path.islink(os.path.join(folder, name)):
                os.chmod(os.path.join(folder, name), 0o700)
    shutil.rmtree(path)


RUNNERS = {
    "calls": job.run_calls,
    "script": job.run_script,
    "check": opaque_test.serve_program,
    "tests": opaque_test.run_tests,
}


def receive(descriptor: int) -> dict:
    """One header: a length and JSON. Raises EOFError when the service hung up."""
    (length,) = _LENGTH.unpack(job.read_exactly(descriptor, _LENGTH.size))
    return json.loads(job.read_exactly(descriptor, length))


def send(connection: socket.socket, message: dict) -> None:
    data = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(data)) + data)


def lock_in(stage: str, uid: int) -> tuple[list[str], str, bool]:
    """Returns the layers won, the scratch folder, and whether this process is pid 1 of its own. See jail.py."""
    layers = jail.unshare()
    scratch = stage
    if layers:
        if os.fork():
            _wait_for_the_other(uid)
        owner = uid if os.geteuid() == 0 else os.geteuid()
        jail.change_root(stage, SCRATCH_BYTES, owner)
        scratch = jail.SCRATCH
        layers.append("private-root")
    if os.geteuid() == 0:
        if not layers:
            os.chown(stage, uid, uid)
        jail.become(uid)
        layers.append("unprivileged-uid")
    jail.seal()
    layers += ["no-new-privs", "rlimits", "clean-environment"]
    if jail.confine_files(scratch):
        layers.append("landlock")
    if seccomp.supported():
        layers.append("seccomp")
    return layers, scratch, os.getpid() == 1


def _wait_for_the_other(uid: int) -> None:
    """The process outside the pid namespace: holds nothing, dies with the service, and takes pid 1 with it."""
    try:
        os.closerange(0, 256)
        if os.geteuid() == 0:
            jail.become(uid)
        jail.seal()
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]) & 0xFF)
    finally:
        os._exit(1)


def main() -> None:
    descriptor, parent, uid = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    connection = socket.socket(fileno=descriptor)
    sizes = receive(descriptor)
    layers, scratch, own_pids = lock_in(sys.argv[3], uid)
    builtins.exit = builtins.quit = sys.exit  # site.py would add them, and programs count on it
    for name in ("codec", "jail", "job", "landlock", "libc", "opaque_test", "seccomp"):
        del sys.modules[name]
    del sys.path[0]
    sys.argv[:] = ["program.py"]
    gc.collect()
    gc.disable()
    gc.freeze()
    send(connection, {"layers": layers, "python": sys.version.split()[0]})
    Zygote(connection, scratch, own_pids, "seccomp" in layers, sizes).serve()


if __name__ == "__main__":
    main()
