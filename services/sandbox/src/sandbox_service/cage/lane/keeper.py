"""The keeper of one lane: start.py makes it.

It serves one request at a time: a header, then a payload that it leaves in the socket for the program to read. It's
forked by nobody: what it needs is loaded when the zygote is there. Ends when the service hangs up.
"""

import contextlib
import os
import select
import signal
from _socket import socket, socketpair
from typing import Any

from sandbox_service.cage.lane import files, lockdown, scratch
from sandbox_service.cage.lane.child import Child
from sandbox_service.cage.lane.limits import Budget, Limits
from sandbox_service.cage.lane.pipe import Pipe
from sandbox_service.cage.lane.process_tree import ProcessTree
from sandbox_service.cage.lane.zygote import Zygote
from sandbox_service.cage.wire import wire

_FIRST_LOOK = 0.005  # seconds
_COMPILED_BY = 0.05
# What ends processes that did nothing for it: the kernel for memory, an operator, whatever stops a service.
_SENT = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT}


class Keeper:
    def __init__(
        self, connection: socket, locked: lockdown.Locked, setup: dict[str, Any], zygote: Zygote, proc: int, base: int
    ) -> None:
        """`proc`: a descriptor of the machine's /proc. `base`: bytes that are resident in each fork.

        Raises Lacking where processes could not be counted.
        """
        self._connection, self._zygote, self._base_bytes = connection, zygote, base
        self._world, self._scratch = locked.world, locked.world.folder
        self._own_root = "private-root" in locked.layers
        self._meter = None if self._own_root else scratch.Meter(self._scratch)
        self._account, self._processes = locked.account, locked.processes
        self._tree = ProcessTree(proc, locked.processes, setup["cgroup"])
        if self._processes and not self._tree.find(zygote.pid):
            raise lockdown.Lacking("programs that start processes can't be held here: /proc does not show them")
        self._result, self._tests = Pipe(setup["result"]), Pipe(64 << 10)
        self._output, self._error = Pipe(setup["output"]), Pipe(setup["output"])
        self._data_bytes = locked.data_bytes
        self._core = -1

    def serve(self) -> None:
        while True:
            try:
                head = wire.receive(self._connection.fileno())
            except EOFError:
                return
            if head["mode"] == "forks":
                wire.send(self._connection, {"seconds": self._zygote.seconds_of_forks(head["count"])})
            else:
                self._run(head)

    def _run(self, head: dict[str, Any]) -> None:
        pipes: tuple[Pipe, ...] = (self._result, self._output, self._error)
        channel = None
        if head["mode"] == "check":
            channel = socketpair()
            pipes += (self._tests,)
        for pipe in pipes:
            # a little more than the limit, so that reaching it can be seen
            pipe.open(head["output"] + 4096 if pipe in (self._output, self._error) else 0)
        children: list[Child] = []
        self._move_to(head["core"])
        # what comes with the lane is not the program's: a third of it is counted as such, as three processes have it
        memory = head["memory"] + self._data_bytes // 3
        limits = Limits(head["cpu"], head["idle"], head["wall"], memory)
        budget = Budget(children, limits, self._tree, self._account, self._zygote.pid, self._bytes_of_files)
        if not self._own_root:
            os.mkdir(self._scratch, 0o700)
        rules = self._world.open(self._zygote.pid)
        try:
            if channel:
                children.append(self._fork(self._result, [channel[0].fileno(), *rules], awaited=False))
                channel[0].close()
                self._result.close_writer()
                if self._has_read_payload(children[0], channel[1]) and self._wants_tests(channel[1]):
                    wire.skip_to(self._connection, head["mark"])
                    children.append(self._fork(self._tests, [channel[1].fileno(), *rules]))
                channel[1].close()
            else:
                children.append(self._fork(self._result, rules))
            for pipe in pipes:
                pipe.close_writer()
            end = "exited"
            if not channel or len(children) > 1:
                end = self._watch(children, head, budget, pipes)
        finally:
            # what is closed below while it still runs ends by our own hand
            ended = children if not channel or self._result.closed_by_all() else children[1:]
            for child in reversed(children):
                child.close()
            left = self._hold_scratch() if head["fetch"] else -1
            strays_cpu = self._zygote.wait_for_all()
            self._world.close()
        cpu = budget.final_cpu(strays_cpu)
        for pipe in pipes:
            pipe.drain()
        if end == "exited":
            end = (
                self._overflow(head)
                or budget.overdrawn(cpu, 0 if self._processes else children[0].max_rss - self._base_bytes)
                or end
            )
        # a child may have died, or been killed by the program, before it had read its payload: that ends here
        for _ in range(1 + (channel is not None) - (len(children) > 1)):
            wire.skip_to(self._connection, head["mark"])
        killed = end == "exited" and any(child.status in _SENT for child in ended)
        self._answer(head, children, end, killed, cpu, budget.elapsed, left)
        for pipe in pipes:
            pipe.close()
        if not self._own_root:
            self._remove_scratch()

    def _fork(self, way_out: Pipe, more: list[int], awaited: bool = True) -> Child:
        """`more`: what it gets beside the standard streams and the way out."""
        stdin = os.memfd_create("stdin")
        child = self._zygote.fork([stdin, self._output.writer, self._error.writer, way_out.writer, *more], awaited)
        os.close(stdin)
        return child

    def _hold_scratch(self) -> int:
        """A descriptor of the program's folder, which stays for that long; -1 where the program lets nobody in."""
        try:
            return os.open(self._scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return -1

    def _bytes_of_files(self) -> int:
        """Where they are in memory."""
        if not self._own_root:
            return 0
        file_system = os.statvfs(self._scratch)
        return (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize

    def _move_to(self, core: int) -> None:
        """All of the lane: its processes take turns, and to wake one on another core costs more than it gains."""
        if core != self._core:
            with contextlib.suppress(OSError):  # the core was taken from the service since it started
                for pid in (0, self._zygote.pid):
                    os.sched_setaffinity(pid, {core})
            self._core = core

    def _has_read_payload(self, program: Child, channel: socket) -> bool:
        """Waits until the program has left the socket, before the tests come through it. False: it died before that.

        `channel`: it holds the other end.
        """
        poll = select.poll()
        poll.register(self._result.reader, select.POLLIN)
        poll.register(channel.fileno(), select.POLLHUP)
        poll.poll()
        self._result.fill()
        if self._result.used:
            program.number()  # the tester's will come the same way
        return bool(self._result.used)

    def _wants_tests(self, channel: socket) -> bool:
        """Whether its source compiles, or takes long to: one that doesn't hangs up before it says so."""
        poll = select.poll()
        poll.register(self._result.reader, select.POLLIN)
        hung_up = select.poll()
        hung_up.register(channel.fileno(), select.POLLHUP)
        if self._result.used <= 1 and poll.poll(1000 * _COMPILED_BY):
            self._result.fill()
        return not hung_up.poll(0)

    def _watch(self, children: list[Child], head: dict[str, Any], budget: Budget, pipes: tuple[Pipe, ...]) -> str:
        """Until the last of `children` ends by itself (exited) or at a limit: see Budget.spent and `_overflow`.

        Most programs end within milliseconds and write less than a pipe holds, so at first it only waits.
        """
        deciding = children[-1]
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
            if limit := self._overflow(head):
                return limit
            if any(descriptor == deciding.descriptor for descriptor, _ in ready):
                deciding.reap()
                return "exited"
            if any(descriptor == self._connection.fileno() for descriptor, _ in ready):
                raise SystemExit("the service hung up")
            if limit := budget.spent():
                return limit
            if self._meter and self._meter.over():
                return "memory"
            patience = min(budget.patience(), self._meter.patience() if self._meter else 1.0)
            ready = poll.poll(1000 * patience)

    def _overflow(self, head: dict[str, Any]) -> str:
        """Of what counts: answers, and what a script prints. Other output is cut."""
        if head["mode"] in ("script", "command") and self._output.used > head["output"]:
            return "output"
        return "result" if self._result.used == self._result.size else ""

    def _answer(
        self, head: dict[str, Any], children: list[Child], end: str, killed: bool, cpu: float, wall: float, left: int
    ) -> None:
        """`killed`: by a signal that may be from outside. `left`: a descriptor of the program's folder, or -1."""
        streams = (self._output, self._error)
        blobs = [self._result.content(self._result.size), *(pipe.content(head["output"]) for pipe in streams)]
        blobs.append(self._tests.content(self._tests.size))
        fetched = files.Fetched(left, head["fetch"], head["fetch_bytes"]) if left >= 0 else None
        max_rss = max(self._tree.peak, children[0].max_rss)
        fields = {
            "end": end,
            "status": children[0].status,
            "killed": killed,
            "cpu": cpu,
            "wall": wall,
            "max_rss": max_rss,
            "cut": any(pipe.used > head["output"] for pipe in streams),
            "blobs": [len(blob) for blob in blobs],
            "files": fetched.sizes if fetched else [],
        }
        self._connection.sendall(b"".join((wire.frame(fields), *blobs)))
        for blob in blobs:
            blob.release()
        if fetched:
            fetched.send(self._connection.fileno())
            os.close(left)

    def _remove_scratch(self) -> None:
        """What can't be removed ends the lane, and the next one starts on a fresh folder."""
        try:
            scratch.empty(self._scratch)
            os.rmdir(self._scratch)
        except OSError as error:
            raise SystemExit(f"the scratch folder can't be emptied: {error}") from None
