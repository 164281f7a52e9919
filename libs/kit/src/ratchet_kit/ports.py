"""TCP ports of this machine."""

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
