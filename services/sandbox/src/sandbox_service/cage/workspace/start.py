"""The beginning of a forked process of a workspace, until its program has the word."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from sandbox_service.cage.kernel import libc, seccomp
from sandbox_service.cage.lane import jail, lockdown
from sandbox_service.cage.run import command, runner
from sandbox_service.cage.wire import wire
from sandbox_service.cage.workspace import changes, files

PAYLOAD_FD = 4  # after the standard streams and the way out
_DESCRIPTORS = 1024
_PYTHON = ("python", "python3")
_OWN = ("HOME", "TMPDIR", "PYTHONPATH", "NLTK_DATA")  # as this place has them: lockdown.py


class Start:
    def __init__(self, locked: lockdown.Locked, setup: dict[str, Any]) -> None:
        """Confines the calling process as well: see seccomp.Filter."""
        self._world, self._processes = locked.world, locked.processes
        self._own_pids, self._own_root = "pid-ns" in locked.layers, "private-root" in locked.layers
        self._own_files = "own-files" in locked.layers
        shared = -1 if setup["cgroup"] else jail.SHARED_BYTES[locked.processes]
        if "seccomp" not in locked.layers:
            raise lockdown.Lacking("programs of a workspace can't be held here without seccomp")
        self._own = () if setup["image"] else _OWN
        self._filter = seccomp.Filter(locked.processes, shared, commands=True, enters=bool(setup["image"]))

        self._modes: dict[str, Callable[..., int]] = {
            "command": self._command, "write": files.write, "read": files.read, "changed": changes.read,
        }  # fmt: skip

    def settle(self) -> None:
        """In pid 1, before the first fork: it takes on what is the same for all programs."""
        self._world.settle()
        jail.limit_lane(resource.RLIM_INFINITY, _DESCRIPTORS)
        self._filter.load_for_zygote(self._own_files or self._processes, self._own_root)

    def begin(self, places: int) -> int:
        """In a fork. `places`: how many descriptors it has: the standard streams, the way out, the payload, and what
        is the world's."""
        self._world.enter(places)
        mode, arguments, memory, cpu, disk, tasks = wire.receive(PAYLOAD_FD)
        os.closerange(PAYLOAD_FD, _DESCRIPTORS)
        if not self._own_pids:  # there, all end with pid 1
            libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if self._processes:
            libc.prctl(libc.PR_SET_DUMPABLE, 1)  # for the exact count of shared memory: process_tree.py
        resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))
        jail.limit_program(memory, cpu, self._processes, tasks)
        self._filter.load()
        frames = wire.Frames(wire.RESULT_FD, "")
        try:
            return self._modes[mode](frames, *arguments)
        except (OSError, ValueError) as error:
            frames.send("error", *runner.describe(error))
            return 1

    def _command(self, frames: wire.Frames, argv: tuple[str, ...], environment: dict[str, str], folder: str) -> int:
        os.chdir(folder or ".")
        if argv[0] in _PYTHON and not self._own_root:  # the runtime's own, where no root gives it that name
            argv = (os.path.realpath(sys.executable), *argv[1:])
        own = {key: os.environ[key] for key in self._own if key in os.environ}
        return command.run_command(frames, argv, own | environment)
