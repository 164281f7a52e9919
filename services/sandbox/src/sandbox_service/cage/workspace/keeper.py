"""The keeper of one workspace: it has pid 1 fork what the service orders, one program after the other, and measures.

It reads neither a program nor its output: these go by descriptors that come with an order. Ends, with all that is
in the workspace, when the service hangs up.
"""

import array
import os
import select
from _socket import CMSG_SPACE, socket
from typing import Any

from sandbox_service.cage.lane import forks, lockdown, scratch
from sandbox_service.cage.lane.child import Child
from sandbox_service.cage.lane.limits import Budget, Limits
from sandbox_service.cage.lane.pipe import Pipe
from sandbox_service.cage.lane.process_tree import ProcessTree
from sandbox_service.cage.lane.zygote import Zygote
from sandbox_service.cage.wire import wire

_PLACES = 4  # descriptors of an order: stdin, stdout, stderr, payload
_COMPLAINT = 4096  # bytes
_BETWEEN_LOOKS = (256 << 20, 10_000)  # bytes and files that a fast disk takes between two looks on a busy machine
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class _Patient(Budget):
    """Programs here run for minutes, and many workspaces at a time: it looks less often."""

    _SHORTEST, _LONGEST = 0.04, 0.1


class Keeper:
    def __init__(
        self, connection: socket, locked: lockdown.Locked, setup: dict[str, Any], ends: forks.Ends, proc: int
    ) -> None:
        """`proc`: a descriptor of the machine's /proc. Raises Lacking where processes could not be counted."""
        self._connection, self._world = connection, locked.world
        self._zygote = Zygote(ends)
        self._own_root, self._processes = "private-root" in locked.layers, locked.processes
        self._account = locked.account
        self._memory, self._cpu, self._stays = setup["memory"], setup["cpu"], setup["stays"]
        self._disk: tuple[int, int] = setup["disk"]
        self._meter: scratch.Meter | None = None
        self._tree = ProcessTree(proc, locked.processes, setup["cgroup"])
        if self._processes and not self._tree.find(self._zygote.pid):
            raise lockdown.Lacking("programs that start processes can't be held here: /proc does not show them")
        if not self._own_root:
            os.mkdir(self._world.folder, 0o700)
        self._world.resize(*self._disk)
        self._world.open(self._zygote.pid)
        self._before = self._account.seconds(self._zygote.pid) if self._account else 0.0
        self._counted, self._peak = 0.0, 0
        self._result = Pipe(_COMPLAINT)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        while True:
            # what was left running may take no more than its limits either
            while not poll.poll(250 if self._stays else None):
                self._look_after_what_stays()
            head, descriptors = self._receive()
            if head["do"] == "run":
                self._run(head, descriptors)

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """An order, and the descriptors that came with its first byte."""
        data, control, _, _ = self._connection.recvmsg(1, CMSG_SPACE(4 * _PLACES))
        if not data:
            raise SystemExit(0)
        descriptors = array.array("i", b"".join(rights for _, _, rights in control))
        return wire.receive(self._connection.fileno()), list(descriptors)

    def _run(self, head: dict[str, Any], descriptors: list[int]) -> None:
        # files can be had of one whose programs have used up their time
        cpu = min(head["cpu"], self._cpu - self._used()) if head["is_command"] else head["cpu"]
        if cpu <= 0:
            for descriptor in descriptors:
                os.close(descriptor)
            self._answer("cpu", None, 0.0, 0.0)
            return
        limits = Limits(cpu, head["wall"], head["wall"], self._memory)
        children: list[Child] = []
        self._measure_disk()
        budget = _Patient(children, limits, self._tree, self._account, self._zygote.pid, lambda: 0)
        self._result.open()
        *streams, payload = descriptors
        rules = self._world.rules_anew(head["is_command"])
        children.append(self._zygote.fork([*streams, self._result.writer, payload, *rules]))
        for descriptor in descriptors:
            os.close(descriptor)
        self._result.close_writer()
        try:
            end = self._watch(children[0], budget)
        finally:
            children[0].close()
        strays = self._zygote.clear() if end != "exited" or not self._stays else 0.0
        used = budget.final_cpu(strays)
        if end == "exited":
            end = budget.overdrawn(used, 0) or end
        self._counted += used
        self._peak = max(self._peak, self._tree.peak, children[0].max_rss)
        self._result.drain()
        self._answer(end, children[0], used, budget.elapsed)
        self._result.close()

    def _watch(self, child: Child, budget: Budget) -> str:
        """Until the child ends by itself (exited), at a limit, or as the service says (cancelled)."""
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN | select.POLLRDHUP)
        poll.register(child.descriptor, select.POLLIN)
        while True:
            patience = min(budget.patience(), self._meter.patience() if self._meter else 1.0)
            for descriptor, event in poll.poll(1000 * patience):
                if descriptor == child.descriptor:
                    child.reap()
                    return "exited"
                if event & _HUNG_UP:
                    raise SystemExit(0)
                self._receive()
                return "cancelled"
            if limit := budget.spent() or self._full():
                return limit

    def _measure_disk(self) -> None:
        """Sets the bound of a folder on the machine's disk, which nothing but looks holds within it. One that is beyond
        it may be tidied up, and not grow: up to twice the bound, or _BETWEEN_LOOKS above it."""
        if not self._own_root:
            size, inodes = self._disk
            above = max(size, _BETWEEN_LOOKS[0]), max(inodes, _BETWEEN_LOOKS[1])
            left = scratch.room(self._world.folder, size + above[0], inodes + above[1])
            most = (max(size, size + above[0] - left[0]), max(inodes, inodes + above[1] - left[1]))
            self._meter = scratch.Meter(self._world.folder, *(self._disk if min(left) < 0 else most))

    def _full(self) -> str:
        return "disk" if self._meter and self._meter.over() else ""

    def _look_after_what_stays(self) -> None:
        """Ends it at a limit of the workspace."""
        self._tree.look([], self._memory, 0)
        if self._tree.memory > self._memory or self._used() > self._cpu:
            self._zygote.clear()

    def _used(self) -> float:
        """CPU seconds of all that ever ran in it."""
        return self._account.seconds(self._zygote.pid) - self._before if self._account else self._counted

    def _answer(self, end: str, child: Child | None, cpu: float, wall: float) -> None:
        said = bytes(self._result.content(_COMPLAINT)).decode("utf-8", "replace") if child else ""
        usage = {
            "cpu": self._used(),
            "disk": self._bytes_of_files(),
            "memory": self._peak,
            "processes": self._tree.count() if self._stays else 0,
        }
        status = child.status if child and child.status is not None else 0
        wire.send(
            self._connection, {"end": end, "status": status, "cpu": cpu, "wall": wall, "said": said, "usage": usage}
        )

    def _bytes_of_files(self) -> int:
        if not self._own_root:
            most = 1 << 62
            return most - scratch.room(self._world.folder, most, most)[0]
        file_system = os.statvfs(self._world.folder)
        return (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize

    def end(self) -> None:
        """And all that it holds: without namespaces, the folder is the service's to remove."""
        self._zygote.end()
