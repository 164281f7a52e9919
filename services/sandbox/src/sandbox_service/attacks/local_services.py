"""Connects to services of the machine by their local sockets, with and without a name in a folder.

Kind: break-out
Expect: FAILED
"""

import socket

NAMES = ["/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket",
         "/run/systemd/journal/stdout", "/dev/log", "/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0", "\0containerd-shim"]  # fmt: skip


def f(x):
    for name in NAMES:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                socket.socket(socket.AF_UNIX, kind).connect(name)
                return 2
            except OSError:
                pass
    return 3
