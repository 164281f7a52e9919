"""The start of a lane as the service makes it: into namespaces and a root of its own, and there Python begins again.

Begun again, because what a process runs and has mapped is its to reach (/proc/self/exe): by then it's the root's own.
Where namespaces or the root are refused, the lane goes on here, as far as seccomp and Landlock hold it.
"""

import marshal
import os
import resource
import signal
import sys
from typing import Any, NoReturn

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane import jail, root
from sandbox_service.cage.lane.world import OwnWorld
from sandbox_service.cage.wire import wire


def main() -> None:
    connection, parent, stage, uid = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    setup = wire.receive(connection)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    python = os.path.realpath(sys.executable)
    own_root = root.Root(stage, tuple(setup["paths"]), python, setup["packages"])
    begin = {"connection": connection, "proc": proc, "setup": setup, "stage": stage, "layers": []}
    begin["refused"] = jail.refusal(lambda: attempt(own_root, uid, proc))
    if not begin["refused"]:
        begin["layers"] = go_in(own_root, uid)
        _begin_again(python, parent, begin)
    from sandbox_service.cage.lane import start
    from sandbox_service.cage.lane.keeper import Keeper  # noqa: F401 (later its file may not be this process's to read)

    if os.geteuid() == 0:
        os.chown(stage, uid, uid)
        jail.become(uid)
        begin["layers"] = ["unprivileged-uid"]
    start.main(begin)


def _begin_again(python: str, parent: int, begin: dict[str, Any]) -> NoReturn:
    note = os.memfd_create("begin", 0)
    data = marshal.dumps(begin)
    wire.write_all(note, wire.LENGTH.pack(len(data)) + data)
    os.lseek(note, 0, os.SEEK_SET)
    for descriptor in (begin["connection"], begin["proc"], begin["setup"]["cpu_usage"], note):
        if descriptor >= 0:
            os.set_inheritable(descriptor, True)
    # to mount, and to take from itself what it could ever get
    libc.keep_over_execve(libc.CAP_SYS_ADMIN, libc.CAP_SETPCAP)
    # the kernel leaves as much room below the stack as this says now: see jail.limit_program
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (most, most))
    script = f"{root.CAGE}/lane/{os.path.basename(sys.argv[0])}"
    # the service's id stays among the arguments: by it the processes of its lanes are known
    os.execv(python, [python, *sys.orig_argv[1:-5], script, str(note), str(parent)])


def go_in(own_root: root.Root, uid: int) -> list[str]:
    """Returns the layers won. Raises OSError."""
    if os.geteuid() == 0:
        libc.unshare(libc.CLONE_NEWNS)
        own_files = own_root.build()
        layers = jail.unshare(uid)
    else:
        layers = jail.unshare(uid)
        own_files = own_root.build()
    own_root.enter()
    return [*layers, "private-root", *(["own-files"] if own_files else [])]


def attempt(own_root: root.Root, uid: int, proc: int) -> None:
    """All that will be asked of the kernel."""
    go_in(own_root, uid)
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            world = OwnWorld(None, False, proc)
            world.settle()
            world.open(os.getpid())
            world.number_anew()
            world.close()
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    if complaint := os.read(reader, 512).decode():
        raise OSError(complaint)
