"""Pid 1 of a workspace: it forks what the keeper orders, and reaps whatever ends, for as long as the workspace lives.

It reads nothing but its orders. Without a process namespace it is an ordinary process, whose children start none.
"""

import os
import select
import signal
import struct
from _socket import CMSG_SPACE, SCM_CREDENTIALS, SOL_SOCKET, socket

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane import forks
from sandbox_service.cage.lane.world import World

_CREDENTIALS = struct.Struct("=iII")


def serve_init(orders: socket, there: int, ended: int, begin: forks.Begin, world: World) -> None:
    _Init(orders, there, ended, begin, world).serve()


class _Init:
    def __init__(self, orders: socket, there: int, ended: int, begin: forks.Begin, world: World) -> None:
        self._orders, self._there, self._ended = orders, socket(fileno=there), ended
        self._begin, self._world = begin, world
        self._awaited, self._own_pids = 0, os.getpid() == 1

    def serve(self) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reader, writer = libc.high(reader), libc.high(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._world.number_anew()
        os.write(self._ended, forks.SECONDS.pack(0.0))
        orders, room = self._orders.fileno(), CMSG_SPACE(4 * forks.PLACES)
        while True:
            ready = select.select((reader, orders), (), ())[0]
            if reader in ready:
                os.read(reader, 1 << 16)
                self._reap()
            if orders in ready:
                order = self._orders.recvmsg(8, room)[0]
                if not order:
                    return
                if order[0] == forks.CLEAR:
                    os.write(self._ended, forks.SECONDS.pack(self._world.end_strays()))
                else:
                    self._fork(order[1])

    def _fork(self, places: int) -> None:
        pid = os.fork()
        if pid == 0:
            if not self._own_pids:
                os.write(self._there.fileno(), b".")
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            forks.enter(self._begin, places)
        os.closerange(0, forks.PLACES)
        self._awaited = pid
        if self._own_pids:
            # not by the child: what was left running here may stop it before it could
            credentials = _CREDENTIALS.pack(pid, os.getuid(), os.getgid())
            self._there.sendmsg([b"."], [(SOL_SOCKET, SCM_CREDENTIALS, credentials)])

    def _reap(self) -> None:
        """All that has ended; what the keeper awaits is told."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._awaited:
                self._awaited = 0
                os.write(self._ended, forks.CHILD.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))
