"""The network of a workspace that has one of its own: loopback alone, and on it the relay's port, held by the service.

Made before the keeper gives its capabilities up, and before any program. What programs keep in sockets is bounded to
what process_tree.py counts for one.
"""

import os
import struct
from _socket import AF_INET, SOCK_STREAM, socket

from sandbox_service.cage.kernel import libc
from sandbox_service.cage.lane import root

PORT = 80  # which no program may bind: a privileged one
_SETTINGS = {
    "tcp_rmem": "4096 65536 98304",
    "tcp_wmem": "4096 65536 98304",
    "tcp_max_tw_buckets": "256",
    "ip_unprivileged_port_start": "1024",
}
_UP = struct.Struct("=16sH14x")  # struct ifreq of netdevice(7), with its flags
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def open_loopback() -> socket:
    """The socket of the relay's port, which does not listen yet: until it does, connections are refused.

    Raises OSError.
    """
    for name, value in _SETTINGS.items():
        setting = os.open(f"{root.MACHINE_PROC}/sys/net/ipv4/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(setting, value.encode())
        finally:
            os.close(setting)
    door = socket(AF_INET, SOCK_STREAM)
    libc.ioctl(door.fileno(), _SIOCSIFFLAGS, _UP.pack(b"lo", _IFF_UP))
    door.bind(("127.0.0.1", PORT))
    return door
