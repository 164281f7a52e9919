"""The process beside the service that forks one for each piece of long work: `child.py DESCRIPTOR SECONDS BYTES`.

It gets a descriptor for each, over which its child is sent the work and sends back what came of it. It ends when the
service hangs up.
"""

import os
import pickle
import resource
import signal
import socket
import struct
import sys

# imported before the first fork
from sandbox_service.adapters.lanes import protocol  # noqa: F401
from sandbox_service.domain import grading, test_code  # noqa: F401

LENGTH = struct.Struct("!Q")


def serve(control: socket.socket, cpu_seconds: int, memory_bytes: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for number in (signal.SIGINT, signal.SIGTERM):  # as long as the service has work for it
        signal.signal(number, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            control.close()
            status = 1
            try:
                with socket.socket(fileno=descriptors[0]) as connection:
                    _limit(cpu_seconds, memory_bytes)
                    _work(connection)
                status = 0
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)


def _limit(cpu_seconds: int, memory_bytes: int) -> None:
    """What reaches a limit ends without an answer."""
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(connection: socket.socket) -> None:
    """Takes a function and its arguments and gives what it gave, in a tuple, or the text of what it raised."""
    with connection.makefile("rwb") as stream:
        (length,) = LENGTH.unpack(stream.read(LENGTH.size))
        function, arguments = pickle.loads(stream.read(length))
        try:
            answer: object = (function(*arguments),)
        except MemoryError:
            return
        except Exception as error:  # noqa: BLE001 (it is told to the service)
            answer = f"{type(error).__name__}: {error}"[:500]
        stream.write(pickle.dumps(answer))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
