"""The start of one lane, by enter.py: with a clean environment and one descriptor it locks itself in, and serves."""

import builtins
import fcntl
import gc
import os
import signal
import socket
import sys
import types

import jail
import lockdown
import runner
import scratch
import wire
from keeper import Keeper
from kernel import libc
from lockdown import Lacking
from pipe import high
from zygote import complain

# What programs import most, loaded once: each takes 0.2 to 3 ms when cold. What few import would cost all the others:
# the kernel takes 0.1 microseconds for each page that a fork inherits, so dataclasses alone (which bring inspect) 30.
_WARM = "bisect collections datetime functools heapq itertools json math operator re string typing"
# `random` would seed itself anew after each fork; here every program finds it as seed(0) leaves it.
_register, os.register_at_fork = os.register_at_fork, lambda **_: None
for _name in ("random", *_WARM.split()):
    __import__(_name)
os.register_at_fork = _register

FILE_BYTES = scratch.SIZE


def _is_of_the_cage(module: types.ModuleType) -> bool:
    """Such modules leave sys.modules before the first program: its `import files` must not find the cage's."""
    return str(getattr(module, "__file__", "")).startswith(os.path.dirname(__file__) + "/")


def main() -> None:
    descriptor, parent, uid = high(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[4])
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not jail.parent_is(parent):
        raise SystemExit("the service is gone")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    del os.environ["LD_BIND_NOW"]  # it has done its part, before this line
    own_modules = [name for name, module in sys.modules.items() if _is_of_the_cage(module) and name != "__main__"]
    connection = socket.socket(fileno=descriptor)
    setup = wire.receive(descriptor)
    if setup["cpu_usage"] >= 0:
        setup["cpu_usage"] = high(setup["cpu_usage"])
    try:
        locked = lockdown.lock_in(sys.argv[3], uid, setup)
    except Lacking as error:
        wire.send(connection, {"lacking": str(error)})
        return
    # site.py would add them, and programs count on it
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    for name in own_modules:
        del sys.modules[name]
    del sys.path[0]
    sys.argv[:] = ["program.py"]
    sys.modules["random"].seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    runner.make_streams()
    jail.limit_lane(FILE_BYTES, locked.processes)
    complaints = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 100)  # descriptor 2 will be the programs' own
    keeper = Keeper(connection, locked, setup, complaints)
    keeper.rehearse()
    gc.collect()
    gc.freeze()
    try:
        keeper.make_zygote()
    except Lacking as error:
        wire.send(connection, {"lacking": str(error)})
        return
    wire.send(connection, {"layers": locked.layers, "refused": locked.refused, "python": sys.version.split()[0]})
    try:
        keeper.serve()
    except BaseException as error:
        complain(complaints, error)
        raise
    finally:
        keeper.end_zygote()
