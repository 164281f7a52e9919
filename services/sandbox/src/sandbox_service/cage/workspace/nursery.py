"""The nursery: a warm process that forks the keeper of each workspace. It runs nothing of anybody.

Each fork goes into namespaces and a root of its own, as a lane does (lane/outside.py), and does not begin again there:
programs are executed in it, so none has this process's code mapped.
"""

import array
import gc
import os
import signal
import struct
import sys
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from typing import Any, NoReturn

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane import forks, jail, lockdown, outside, root
from sandbox_service.cage.wire import wire
from sandbox_service.cage.workspace import image, network
from sandbox_service.cage.workspace.init import serve_init
from sandbox_service.cage.workspace.keeper import Keeper
from sandbox_service.cage.workspace.start import Start

_PLACES = 2  # descriptors of a request: the workspace's connection, and the account of its CPU time
_FOLDERS = ("app", "data", "testbed", "work", "workspace", "logs", "solution", "tests")  # as task folders name them
_THREAD_STACK = 8 << 20


def main() -> None:
    connection, parent = int(sys.argv[1]), int(sys.argv[2])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    setup = wire.receive(connection)
    proc = libc.high(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    service = socket(fileno=libc.high(connection))
    os.umask(0o022)
    libc.set_thread_stack(_THREAD_STACK)
    setup["refused"] = jail.refusal(lambda: outside.attempt(_root(setup, setup["stage"]), setup["uid"], proc))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no keeper stays as a zombie
    gc.collect()
    gc.freeze()
    wire.send(service, {"refused": setup["refused"], "python": sys.version.split()[0]})
    room = CMSG_SPACE(4 * _PLACES)
    while True:
        data, control, _, _ = service.recvmsg(1, room)
        if not data:
            return
        descriptors = array.array("i", b"".join(rights for _, _, rights in control))
        keeper = os.getpid()
        if (pid := os.fork()) == 0:
            service.close()
            _live(list(descriptors), setup, proc, keeper)
        for descriptor in descriptors:
            os.close(descriptor)
        wire.send(service, {"pid": pid})


def _root(setup: dict[str, Any], stage: str) -> root.Root:
    python = os.path.realpath(sys.executable)
    folder, size, inodes = setup.get("image") or ("", 0, 0)
    more = image.Mounts(folder, size, inodes, setup["uid"]) if folder else None
    return root.Root(stage, tuple(setup["paths"]), python, setup["packages"], False, _FOLDERS, more)


def _live(descriptors: list[int], setup: dict[str, Any], proc: int, nursery: int) -> NoReturn:
    """The life of a workspace's keeper, in a fork."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == nursery:
            _keep(descriptors, setup, proc)
        status = 0
    except SystemExit as error:
        if error.code:
            forks.complain(2, error)
    except BaseException as error:  # noqa: BLE001
        forks.complain(2, error)
    finally:
        os._exit(status)


def _enter_beside_image(begin: dict[str, Any]) -> str:
    """The reason why there can be no workspace with an image here, or nothing."""
    setup = begin["setup"]
    try:
        begin["layers"] = outside.go_in(_root(setup, setup["stage"]), setup["uid"])
    except OSError as error:
        return f"images can't be mounted on this node: {error}"
    return ""


def _keep(descriptors: list[int], shared: dict[str, Any], proc: int) -> None:
    service, *account = descriptors
    cpu_usage = libc.high(account[0]) if account else -1
    connection = libc.high(service)
    # the service writes it once this process is in its cgroup
    setup = shared | wire.receive(connection) | {"cpu_usage": cpu_usage, "processes": not shared["refused"]}
    begin = {"setup": setup, "stage": setup["stage"], "layers": [], "refused": shared["refused"]}
    door, no_relay = None, "it has no network of its own"
    if setup["image"] and (lacking := _enter_beside_image(begin)):
        wire.send(socket(fileno=connection), {"lacking": lacking})
        return
    if not begin["refused"]:
        if not setup["image"]:
            begin["layers"] = outside.go_in(_root(setup, setup["stage"]), setup["uid"])
        try:
            door = network.open_loopback()
        except OSError as error:
            no_relay = f"its network has no loopback: {error}"
    elif os.geteuid() == 0:
        os.chown(setup["stage"], setup["uid"], setup["uid"])
        jail.become(setup["uid"])
        begin["layers"] = ["unprivileged-uid"]
    answers = socket(fileno=connection)
    try:
        locked = lockdown.lock_in(begin, proc, image.ImageWorld if setup["image"] else None)
        if setup["image"] and "landlock" not in locked.layers:
            raise lockdown.Lacking("programs of an image can't be held here without Landlock")
        start = Start(locked, setup)
        complaints = libc.duplicate(2, 100)
        ends = forks.start(start.settle, start.begin, locked.world, complaints, connection, serve_init)
        no_relay = "" if door else no_relay
        wire.send(answers, {"layers": locked.layers, "refused": locked.refused, "no_relay": no_relay})
        if door:
            answers.sendmsg([b"."], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("=i", door.fileno()))])
            door.close()
        # may be long in coming: the service keeps some that wait
        keeper = Keeper(answers, locked, setup | wire.receive(connection), ends, proc)
    except lockdown.Lacking as error:
        wire.send(answers, {"lacking": str(error)})
        return
    except EOFError:
        os.kill(ends.pid, signal.SIGKILL)
        os.waitpid(ends.pid, 0)
        return
    try:
        wire.send(answers, {})
        keeper.serve()
    finally:
        keeper.end()
