"""The beginning of a forked process of a lane, until the program has the word: start.py makes it, forks inherit it."""

import marshal
import os
import signal
import sys
from _socket import socket
from collections.abc import Callable

from sandbox_service.cage.kernel import libc, seccomp
from sandbox_service.cage.lane import files, jail, lockdown, rehearsal, scratch
from sandbox_service.cage.run import command, runner
from sandbox_service.cage.test_code import tester
from sandbox_service.cage.wire import wire


class Cradle:
    """`connection`: where the service's words to a program come from."""

    def __init__(self, connection: socket, locked: lockdown.Locked, cgroup: bool) -> None:
        """`cgroup`: one counts shared memory."""
        self._connection, self._world, self._processes = connection, locked.world, locked.processes
        self._own_pids, self._own_root = "pid-ns" in locked.layers, "private-root" in locked.layers
        self._own_files, self._data_bytes = "own-files" in locked.layers, locked.data_bytes
        shared_bytes = -1 if cgroup else jail.SHARED_BYTES[locked.processes]
        self._filter = seccomp.Filter(locked.processes, shared_bytes) if "seccomp" in locked.layers else None

    def rehearse(self) -> None:
        """Does a few times what every program will do first. Python rewrites code that it runs often, and remembers
        where it found what it looked for: each program would else have to copy what that changes."""
        calls = ("def f(x):\n    return x + 1\n", "f", [[0], [1]], False)
        payload = marshal.dumps(("calls", "rehearsal", calls, "", [], 1 << 30, 5.0))
        payload = wire.LENGTH.pack(len(payload)) + payload
        reader, writer = os.pipe()
        nowhere, path = os.open(os.devnull, os.O_WRONLY), list(sys.path)
        for _ in range(20):
            os.write(writer, payload)
            mode, nonce, arguments, stdin, *_ = wire.receive(reader)
            os.closerange(255, 256)
            runner.fill_stdin(nowhere, stdin)
            self._world.rehearse()
            if self._filter:
                self._filter.rehearse()
            RUNNERS[mode](wire.Frames(nowhere, nonce), *arguments)
        rehearsal.crossing()
        for descriptor in (reader, writer, nowhere):
            os.close(descriptor)
        del sys.modules["program"]
        sys.path[:] = path

    def settle(self) -> None:
        """In the zygote, before the first fork: it takes on what is the same for all programs."""
        self._world.settle()
        jail.limit_lane(scratch.SIZE, 256 if self._processes else 128)
        if self._filter:
            # programs that start processes need locks among these
            self._filter.load_for_zygote(self._own_files or self._processes, self._own_root)

    def begin(self, places: int) -> int:
        """In a fork. `places`: how many descriptors it has: the standard streams, the way out, maybe a channel between
        program and tests, and what is the world's."""
        places = self._world.enter(places)
        mode, nonce, arguments, stdin, taken, memory, cpu = wire.receive(self._connection.fileno())
        if taken:
            try:
                files.take_files(self._connection.fileno(), taken)
            except OSError as error:
                wire.Frames(wire.RESULT_FD, nonce).send("error", *runner.describe(error))
                return 1
        os.write(wire.RESULT_FD, b"\n")
        os.closerange(places, 256)
        runner.fill_stdin(0, stdin)
        if not self._own_pids:  # there, all end with pid 1
            libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        if self._processes:
            # a signal to its group must not reach the lane's own processes
            os.setsid()
            # for the exact count of shared memory: process_tree.py. To Landlock it's another's domain for all but it.
            libc.prctl(libc.PR_SET_DUMPABLE, 1)
        jail.limit_program(memory + self._data_bytes, cpu, self._processes)
        if self._filter:
            self._filter.load()
        return RUNNERS[mode](wire.Frames(wire.RESULT_FD, nonce), *arguments)


RUNNERS: dict[str, Callable[..., int]] = {
    "calls": runner.run_calls,
    "script": runner.run_script,
    "check": tester.serve_program,
    "compile": tester.compile_tests,
    "tests": tester.run_tests,
    "beside": tester.run_beside,
    "command": command.run_command,
}
